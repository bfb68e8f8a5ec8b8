"""Which of the ready jobs runs next.

The way of a job from submitted to picked. Beside each method: what its object keeps, or what it does:

    JobQueue.add ──> Judging.new_entry          what the filters say: a ruling, kept in a filter class
        │
        │            Waits.begin                what the job waits for
        v
    Entries.move ──> blocked                    until JobQueue.end of the last job it depends on
        │
        v
      ready ───────> ReadyJobs.add              files the job by what decides when it may start:
        │
        │              needs ──> lock class ─────────┐           locks of the next opcode
        │              limits, pause ──> admission ──┼─> job class      equal in all of it, by age
        │              priority ─────────────────────┘        │
        │                                                 partition     one admission class of a weight class
        │                                                     │
        │                                                weight class   equal static weight, by age
        v
    JobQueue.decide ─> ReadyJobs.best           compares the heads of the weight classes of the best priority
        │
        v
     starting ─────> RunningJobs.add            counts against its limits (LimitUsage), and its locks
        │                                       (RunningLocks) against others: some job classes of ReadyJobs
        v                                       close, or move into a heavier weight class
      running ─────> RunningJobs.remove         when the process is gone; that opens, and makes lighter

Glossary:

    entry            a job that has not ended, with all that the core knows of it
    phase            where an entry stands: ready, blocked, held, starting, running
    held             (a phase) luxid rewrites the job's file; of locks: held by a running job
    ruling           what the chain of filter rules says of a job: the rule that applies, and its action
    restraint        a ruling that keeps a job from starting: PAUSE, RATE_LIMIT
    filter class     jobs whose opcodes have the same names, under the same ruling
    static match     what a rule says of a whole filter class by the names of its opcodes: never, maybe, always
    shortlist        the rules of a new chain that may apply to a filter class, and the ruling if none does
    bucket, batch    a limit that a job names in its reasons; jobs submitted together, of which only some run at once
    limit            that of a bucket, of a batch, or of a rule with RATE_LIMIT
    admission        a job's limits and user, and whether it is paused; an admission class is open if it is not paused
                     and none of its limits is full
    needs            the locks that an opcode declares: names and kinds by level
    taking           a kind of lock on one level: shared or exclusive; named, unknown or all
    shape            the needs without the names
    clash            a name in common with a running job, one of the two exclusive
    lock class       jobs with equal needs
    job class        jobs of one lock class, admission class and priority: only age orders them
    weight class     jobs of one user, priority and shape that clash on the same levels: only age orders them
    partition        the job classes of one weight class in one admission class
    static weight    what a job would cost the running ones; *aged*: what its age has left of that
    tick             the unit of age
    standing         what the bounds say of a user's jobs now: they start as usual, after all others, or not at all
    rank             standing, priority, aged weight, age, id: the order of starts
    aliases          the names and UUIDs of one object: running jobs lock by UUID what queued ones call by name

Theory. The best job is the one of the smallest rank. To find it, the ready jobs are kept in nested classes, such that
within a class neither time nor events ever change the order. All jobs of a job class have the same static weight, so
the one received first is never the heavier one: the order is (received tick, id). From priority, shape and the levels
of clashes alone follows the static weight: so a weight class, too, is ordered by (received tick, id), whatever
different names its jobs have. Its jobs are of one user, so that the bounds are asked for its head alone. A closed
admission class shows no head in its partitions, so its jobs are passed over.

Each class knows its own head, and tells the class above when that changes. So a pick compares one head for each weight
class of the best priority, with weights as they are at this moment; there are as many weight classes as there are
shapes of opcodes and users, however many jobs, names and limits. No tick of the clock has to be told.

A start or an end changes the number of jobs that take a name. Only where it crosses zero may the lock classes that need
this name begin or cease to clash on a level; their job classes then belong into another weight class. They are moved
when a best job is next asked for: a job takes and frees locks several times between two picks, its next change often
undoes the last, and a lock class that many admission classes divide has many job classes. A limit that becomes full or
free closes or opens admission classes: it hides or shows a head in each of their partitions, however many jobs they
have.

Considered and rejected: one sorted list (each start would re-weigh all), a heap for each lock class (with a name for
each instance there are as many classes as jobs), a queue for each tick (all jobs would move twice a minute).

Source: DESIGN section 6, "Selection", "Weights"; predictive-queue design; luxid.md 5.11.
"""
