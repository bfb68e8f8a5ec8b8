"""Machines that are to become one cluster, each with a root and an address of its own."""

from pathlib import Path

from common.paths import Paths
from tests.cli.command import Ended, run
from tests.support.machines.nodes import HOST, LEAN
from tests.support.sockets.ports import free_port


class OwnMachines:
    """The first has the settings of a master; the others have only a folder's name until they join."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        own = f'{LEAN}[cluster]\nreplication = "nodes"\nnode_name = "node1.test"\n'
        self.settings = f'{own}[noded]\naddress = "{HOST}"\nport = {free_port()}\njoin_port = {free_port()}\n'
        self.root(1).mkdir()
        (self.root(1) / "gantry.toml").write_text(self.settings)

    def root(self, number: int) -> Path:
        return self.folder / f"n{number}"

    def paths(self, number: int) -> Paths:
        return Paths.under_root(self.root(number))

    def gantry(self, number: int, *words: object) -> Ended:
        return run("gantry", "--root", self.root(number), *words)

    def down(self) -> None:
        for root in self.folder.iterdir():
            run("gantry", "--root", root, "down")
