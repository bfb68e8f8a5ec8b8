"""Clients of /3 for programs on other machines: one without an event loop, one for trio, over the same parts.

`httpx2` is imported only here, and late: no daemon and no local command needs it.

    from protocol.rapid.clients.blocking import RapidClient

    with RapidClient("https://gantry.example.com:5080", token=token, ca="rapi.crt") as gantry:
        (job_id,) = gantry.submit([{"OP_ID": "OP_RUN_COMMAND", "argv": ["uname", "-a"]}])
        print(gantry.wait(job_id).status)
"""
