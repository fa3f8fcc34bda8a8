# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scripts/batch/slurm.sh in a Slurm of one node, which the test starts: jobs that are warned before their end, out of time,
preempted, refused, or cancelled."""
import getpass
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "regression"))
import program
from program import LockstepTest, metrics, summary, without_times

SCRIPT = program.SOURCE / "scripts" / "batch" / "slurm.sh"
DAEMONS = ("munged", "slurmctld", "slurmd")
# A namespace with its own init (which reaps orphans), /proc and /dev/shm (where killed ranks leave files): all end with the
# test.
NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && "$@"; exit $?', "sh"]

CONFIGURATION = """
ClusterName=lockstep
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
# A job that was requeued starts after cred_expire seconds.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
# More cores than there may be: four jobs of two ranks run at a time.
SlurmdParameters=config_overrides
NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 CPUs=8
SchedulerParameters=sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=normal Nodes=ALL PriorityTier=1 PreemptMode=OFF Default=YES
PartitionName=low Nodes=ALL PriorityTier=1
PartitionName=high Nodes=ALL PriorityTier=2
"""

DECK = {
    "run": {"steps": 10000000, "output_dir": "run", "log_every": 20, "seed": 7},
    "data": {"synthetic": {"kind": "glyphs", "train": 2000, "validation": 100}},
    "model": {"layers": [{"conv2d": {"filters": 16, "kernel": 5}}, "relu", "flatten", {"dropout": {"rate": 0.2}},
                         {"linear": {"features": 10}}]},
    "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9},
    "batch": {"global": 64},
    "checkpoint": {"every_steps": 50},
}

# The first run of a job never ends by itself, and does few steps in its time; later runs have 100 more steps to do.
LAUNCHER = """#!/bin/sh
if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ]; then
    set -- "$@" run.steps=$(($(tail -n 1 run/metrics.csv | cut -d , -f 1) + 100))
else
    set -- "$@" --emulate-network latency_us=10000,ranks_per_node=1
fi
exec {launcher} "$@"
"""
MPIEXEC = " ".join([*program.MPIEXEC, "2"])
SRUN = "srun --mpi=pmix"


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for(condition, what, seconds=120):
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError(f"not after {seconds} s: {what}")
        time.sleep(0.3)


def output_of(*command, cwd=None, environment=None):
    result = subprocess.run(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if result.returncode != 0:
        raise AssertionError(f"{command} ended with {result.returncode}: {result.stdout}{result.stderr}")
    return result.stdout


class Cluster:
    """munged, slurmctld and slurmd, with all of their files in `folder`."""

    def __init__(self, folder):
        self.folder = folder
        self.daemons = []
        folder.chmod(0o755)  # munged requires that others can reach its socket
        (folder / "state").mkdir()
        (folder / "spool").mkdir()
        ports = free_ports(2)
        (folder / "slurm.conf").write_text(CONFIGURATION.format(
            folder=folder, host=socket.gethostname().split(".")[0], user=getpass.getuser(), controller_port=ports[0], node_port=ports[1]))
        (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")

    def start(self):
        files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid", "log-file": "munged.log", "seed-file": "munge.seed"}
        self.run("munged", "--foreground", *(f"--{option}={self.folder / name}" for option, name in files.items()))
        wait_for((self.folder / "munge.socket").exists, "munged listens", 20)
        self.run("slurmctld", "-D")
        self.run("slurmd", "-D")
        wait_for(lambda: "idle" in subprocess.run(["sinfo", "--noheader", "--format=%T"], capture_output=True, text=True).stdout,
                 f"the node is idle: see {self.folder}/*.log", 30)

    def run(self, *command):
        with open(self.folder / f"{command[0]}.out", "w") as out:
            self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def stop(self):
        output_of("scancel", "--me")
        wait_for(lambda: not output_of("squeue", "--noheader"), "no job is left")
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait()


class Job:
    def __init__(self, folder, launcher, *options, script=SCRIPT):
        self.folder = folder
        launch = folder / "launch"
        launch.write_text(LAUNCHER.format(launcher=launcher))
        launch.chmod(0o755)
        environment = {**os.environ, "LAUNCHER": str(launch), "OMP_PROC_BIND": "false", "TMPDIR": str(folder),
                       "PATH": f"{pathlib.Path(program.PROGRAM).parent}:{os.environ['PATH']}"}
        self.id = output_of("sbatch", "--parsable", "--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1", *options,
                            str(script), "deck.yaml", cwd=folder, environment=environment).strip()

    def __str__(self):
        return f"{self.folder.name}: {self.fields()}\n{self.log()}"

    def fields(self):
        return dict(re.findall(r"(\w+)=(\S+)", output_of("scontrol", "show", "job", "--oneliner", self.id)))

    def log(self):
        path = self.folder / f"slurm-{self.id}.out"
        return path.read_text() if path.exists() else ""

    def trains(self):
        path = self.folder / "run" / "metrics.csv"
        return path.exists() and len(path.read_text().splitlines()) > 1

    def wait_until(self, condition, what):
        try:
            wait_for(condition, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self}") from None


class Slurm(LockstepTest):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-slurm-"))
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.cluster = Cluster(cls.root)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        os.environ["OMP_NUM_THREADS"] = "1"  # as in the jobs, since sums depend on it
        # All jobs run at once: those with a time limit need a minute, Slurm's smallest.
        unwarned = cls.root / "unwarned.sh"
        unwarned.write_text(re.sub("#SBATCH --signal=.*\n", "", SCRIPT.read_text()))
        cls.out_of_time = cls.submit("out_of_time", SRUN, "--time=1", script=unwarned)
        cls.warned = cls.submit("warned", MPIEXEC, "--time=1")
        cls.cancelled = cls.submit("cancelled", SRUN, "--time=20")
        cls.preempted = cls.submit("preempted", SRUN, "--time=20", "--partition=low")
        cls.refused = cls.submit("refused", MPIEXEC, "--time=20", batch={"global": -1})

    @classmethod
    def submit(cls, name, launcher, *options, script=SCRIPT, **sections):
        folder = cls.root / name
        folder.mkdir()
        (folder / "deck.yaml").write_text(json.dumps({**DECK, **sections}))
        return Job(folder, launcher, *options, script=script)

    def expect_end(self, job, state, exit_code, restarts):
        job.wait_until(lambda: job.fields()["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"), state)
        fields = job.fields()
        self.assertEqual((fields["JobState"], fields["ExitCode"], fields["Restarts"]), (state, exit_code, restarts), job)

    def expect_uninterrupted(self, job):
        """The job went on, and has the parameters and curves of an uninterrupted run."""
        end = summary(job.folder / "run")
        self.assertIn("checkpoints/step-", end["resumed_from"], job)
        self.lockstep("train", job.folder / "deck.yaml", f"run.steps={end['steps']}", ranks=2, limit=120)
        self.assertEqual(without_times(metrics(job.folder / "run")), without_times(metrics(self.folder / "run")))
        last = pathlib.Path("run", "checkpoints", f"step-{end['steps']:08}.h5")
        self.assertTrue((job.folder / last).read_bytes() == (self.folder / last).read_bytes(), "the last checkpoints differ")

    def test_cancelled(self):
        job = self.cancelled
        job.wait_until(job.trains, "training")
        output_of("scancel", job.id)
        self.expect_end(job, "CANCELLED", "75:0", restarts="0")

    def test_preempted(self):
        job = self.preempted
        job.wait_until(job.trains, "training")
        output_of("sbatch", "--partition=high", "--ntasks=4", "--output=/dev/null", "--wrap=true")
        self.expect_end(job, "COMPLETED", "0:0", restarts="1")
        for words in ("DUE TO PREEMPTION", "SIGTERM"):
            self.assertIn(words, job.log())
        self.expect_uninterrupted(job)

    def test_refused(self):
        self.expect_end(self.refused, "FAILED", "78:0", restarts="0")

    def test_restarts_are_bounded(self):
        job = self.submit("bounded", MPIEXEC, "--time=20", "--export=ALL,MAX_RESTARTS=0")
        job.wait_until(job.trains, "training")
        output_of("scancel", "--batch", "--signal=USR1", job.id)
        self.expect_end(job, "FAILED", "75:0", restarts="0")
        self.assertIn("error: not requeued again after 0 restarts", job.log())

    def test_time_limit(self):
        self.expect_end(self.out_of_time, "COMPLETED", "0:0", restarts="1")
        for words in ("its time is up", "requeueing the job"):
            self.assertIn(words, self.out_of_time.log())
        self.expect_uninterrupted(self.out_of_time)

    def test_warning_through_srun(self):
        job = self.submit("warned_by_srun", SRUN, "--time=20")
        job.wait_until(job.trains, "training")
        output_of("scancel", "--batch", "--signal=USR1", job.id)
        self.expect_end(job, "COMPLETED", "0:0", restarts="1")
        self.assertIn("SIGUSR1", job.log())
        self.expect_uninterrupted(job)

    def test_warning_signal(self):
        self.expect_end(self.warned, "COMPLETED", "0:0", restarts="1")
        for words in ("SIGUSR1", "requeueing the job"):
            self.assertIn(words, self.warned.log())
        self.expect_uninterrupted(self.warned)


def enter_namespace():
    """Starts this file again inside the namespace."""
    missing = [name for name in (*DAEMONS, "sbatch", "unshare") if not shutil.which(name)]
    if missing:
        print(f"skipped: no {', '.join(missing)} here")
        sys.exit(77)
    if subprocess.run([*NAMESPACE, "true"]).returncode != 0:
        print("skipped: only root can make the namespaces in which this test lives")
        sys.exit(77)
    os.environ["LOCKSTEP_IN_NAMESPACE"] = "yes"
    os.execvp(NAMESPACE[0], [*NAMESPACE, sys.executable, "-B", __file__, *sys.argv[1:]])


if __name__ == "__main__":
    if "LOCKSTEP_IN_NAMESPACE" not in os.environ:
        enter_namespace()
    program.main()
