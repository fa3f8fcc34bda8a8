# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nodes of this one machine, that Open MPI 5 takes for several: its daemons differ in the names of their hosts."""
import subprocess

import program

# What Open MPI starts its daemons with, in the place of ssh.
AGENT = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
host=$1; shift
exec unshare --uts sh -c "hostname $host; $*"
"""


def launcher(test, nodes):
    """A command that wants the number of ranks next; the test is skipped where it does not work. `nodes`: "nodea:2,nodeb:1"."""
    agent = test.write("agent", AGENT)
    agent.chmod(0o755)
    command = [program.MPIEXEC[0], "--prtemca", "plm_ssh_agent", str(agent), "--prtemca", "plm_ssh_no_tree_spawn", "1",
               "--mca", "btl", "self,sm,tcp", "--mca", "btl_tcp_if_include", "lo", "--host", nodes, "--map-by", "slot", "-n"]
    expected = sorted(name for node in nodes.split(",") for name in [node.split(":")[0]] * int(node.split(":")[1]))
    # Not quicker: Open MPI 5 waits for ever for daemons whose ranks end as soon as they are started.
    found = subprocess.run([*command, str(len(expected)), "sh", "-c", "sleep 0.5; hostname"], capture_output=True, text=True, timeout=60)
    if sorted(found.stdout.split()) != expected:
        test.skipTest("Open MPI 5 and root's rights are needed to make two nodes of this machine")
    return command
