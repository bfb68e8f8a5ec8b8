"""Trees that are shown as one, of which only the top is written to; a copy of them where the kernel has no overlays.

Nothing is synced to the disk, neither at a program's wish nor at the end. The machine itself keeps its power, so
nothing is lost by that, and neither a boot nor an end waits for what other programs of the machine write.
"""

from pathlib import Path

# from the top
Layers = tuple[Path, ...]


def mount_script(layers: Layers, folder: Path) -> str:
    """Shell commands, for a mount namespace of their own, that show the layers in FOLDER/root.

    Args: folder: what is written is in FOLDER/upper; FOLDER/work belongs to the kernel. All three are there.
    """
    below = ":".join(map(str, layers))
    copies = "; ".join(
        f"cp -a --reflink=auto {layer}/. {folder}/root" for layer in (*reversed(layers), folder / "upper")
    )
    # the kernel refuses the top of an unsynced overlay that was not ended, unless told that all of it is there
    return f"""if [ ! -e {folder}/root/usr ]; then
  (cd {folder}/work && rm -rf work/incompat)
  mount -t overlay overlay -o volatile,lowerdir={below},upperdir={folder}/upper,workdir={folder}/work {folder}/root \\
    || {{ {copies}; }}
fi"""
