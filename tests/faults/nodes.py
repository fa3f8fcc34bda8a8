# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several nodes on this machine for Open MPI 5: each of its daemons has another host name."""
import subprocess

import program

# Open MPI starts its daemons with this script instead of ssh.
AGENT = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
host=$1; shift
exec unshare --uts sh -c "hostname $host; $*"
"""


def launcher(test, nodes):
    """A launcher's command, to be followed by the number of ranks; skips the test if it does not work. `nodes`: "nodea:2,nodeb:1"."""
    agent = test.write("agent", AGENT)
    agent.chmod(0o755)
    command = [program.MPIEXEC[0], "--prtemca", "plm_ssh_agent", str(agent), "--prtemca", "plm_ssh_no_tree_spawn", "1",
               "--mca", "btl", "self,sm,tcp", "--mca", "btl_tcp_if_include", "lo", "--host", nodes, "--map-by", "slot", "-n"]
    expected = sorted(name for node in nodes.split(",") for name in [node.split(":")[0]] * int(node.split(":")[1]))
    # The pause is needed: Open MPI 5 waits for ever for daemons whose ranks end as soon as they are started.
    found = subprocess.run([*command, str(len(expected)), "sh", "-c", "sleep 0.5; hostname"], capture_output=True, text=True, timeout=60)
    if sorted(found.stdout.split()) != expected:
        test.skipTest("Open MPI 5 and root's rights are needed to make two nodes of this machine")
    return command
