"""A later version of the package: the same files, but for its name."""

from typing import Final

from tests.systemd.containers.container import Container
from tests.systemd.containers.tree import PACKAGE

NAME: Final = "99.0-next"
_MAKE: Final = f"""set -e
dpkg-deb --raw-extract /{PACKAGE} /root/next
sed -i 's/^Version: .*/Version: 99.0/' /root/next/DEBIAN/control
echo {NAME} > /root/next/opt/gantry/shipped/name
for file in $(grep -rlI '^#!/opt/gantry/versions/' /root/next/opt/gantry/shipped/bin); do
  sed -i '1s#/opt/gantry/versions/[^/]*/#/opt/gantry/versions/{NAME}/#' $file; done
dpkg-deb --build -Znone /root/next /root/next.deb"""


def upgrade(container: Container) -> None:
    """Install it over the version that is there. Raises: AssertionError."""
    container.check(_MAKE)
    container.check("dpkg -i /root/next.deb")
