"""Counted resources: who has units, who waits for them, and for whom they are kept.

Theory. A job that uses resources takes all its units when it begins to start, or none: so nobody waits for units while
he holds locks, and no ring of waits can come of them. A *want* is what a job asks of one resource, at its priority. It
is *short* while too few units are free for it. The jobs of one admission class (`choice`) have the same wants: together
they are a *group*. A group with a short want is closed like one whose limit is full, and costs nothing until units of
its resources come or go. Each resource has its wants sorted by count: a change of what is free touches those that it
makes short, or not short any more, and no job.

By itself a waiting job reserves nothing, so a stream of small jobs might keep a large one waiting without end. So the
job that has waited longest for a resource (by priority, then age) counts its *passes*: starts of later jobs, or jobs of
a worse priority, that take units of what it wants. After `max_bypass` of them it is *overdue*. For each resource, the
units that the first overdue job wants are kept for it: they count as not free for the jobs of all other groups, except
those of a better priority. A job that asks for as much of this resource, and for others, is of another group: it
would take the units while the overdue job waits for a second resource.

The bound: there is one order for all resources, so the first of all overdue jobs is held back by nobody, and starts as
soon as those who have its units end. So every job becomes the one that has waited longest, and then overdue, after
finitely many starts. A job that asks for more than there is, or that something else holds, is passed without counting
and keeps nothing from others.

Considered and rejected: counting the passes of every waiting job (each start would touch all of them); keeping units
that became free until there are enough, from the first moment (half of a resource would stand idle for a large job);
letting jobs with a time limit pass an overdue one if they end before it could start (the end of the jobs that have its
units is not known).

Source: DESIGN section 16; everyday.md section e.
"""
