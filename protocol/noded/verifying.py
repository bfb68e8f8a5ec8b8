"""Checks of a node for `gnt-cluster verify`.

Source: noded.md section 6.
"""

import enum

import attrs

from common.shapes import JsonObject
from protocol.noded.call import NodeCall


class Check(enum.StrEnum):
    """The checks that need no hypervisor and no storage: a key of the question, with its argument, and of the reply."""

    # names of files -> SHA1 of their contents
    FILES = "filelist"
    NODES = "nodelist"
    NODE_NET = "node-net-test"
    # -> [protocol, release]
    VERSION = "version"
    # -> [seconds, microseconds]
    TIME = "time"
    NODE_SETUP = "nodesetup"
    BRIDGES = "bridges"
    MASTER_IP = "master-ip"
    USER_SCRIPTS = "user-scripts"
    OOB_PATHS = "oob-paths"
    CLIENT_CERT = "client-cert"


@attrs.frozen
class NodeVerify(NodeCall[JsonObject]):
    """Run these checks; the reply has a result for each check that the node knows."""

    METHOD = "node_verify"
    # a check of `Check`, or another one -> its argument
    checkdict: JsonObject
    cluster_name: str
    all_hvparams: JsonObject


@attrs.frozen
class NodeVerifyLight(NodeCall[JsonObject]):
    """As `NodeVerify`, for checks that take little time."""

    METHOD = "node_verify_light"
    checkdict: JsonObject
    cluster_name: str
    hvparams: JsonObject
