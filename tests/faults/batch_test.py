# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scripts/batch/*.sh with stand-ins for the schedulers and for lockstep: what is submitted again, and with which variables.
(slurm_test.py has a real Slurm.)"""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "regression"))
import program
from program import LockstepTest

# Signals of which a second one ends a run at once, with the status of a shell for it.
STOP_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
BATCH = program.SOURCE / "scripts" / "batch"


# Fails if a variable of `-v NAME,…` is unset, as OpenPBS does.
KNOWS_ALL_NAMES = 'for name in $(echo "$2" | tr , " "); do printenv "$name" >/dev/null || { echo "qsub: cannot send environment with the job" >&2; exit 1; }; done; '


def busy(name):
    """A shell command that fails in the first $BUSY_<name> calls, like a busy server."""
    return f'echo x >> "$0.calls"; [ "$(wc -l < "$0.calls")" -gt "${{BUSY_{name}:-0}}" ] || exit 1; '


# Each stand-in writes down its call.
STAND_INS = {
    "lockstep": 'trap "echo USR1 >> $CALLS; exit 75" USR1; echo "lockstep $* end=${LOCKSTEP_JOB_END_TIME:-}" >> "$CALLS"; '
                'sleep "${TRAINS:-0}" >/dev/null 2>&1 & wait; exit "$STATUS"',
    "scontrol": busy("scontrol") + 'echo "scontrol $*" >> "$CALLS"',
    "qsub": busy("qsub") + KNOWS_ALL_NAMES + 'echo "qsub $* DECK=$DECK OVERRIDES=$OVERRIDES LAUNCHER=$LAUNCHER RESTARTS=$RESTARTS FAILED=$FAILED COMMAND=$LOCKSTEP_COMMAND" >> "$CALLS"',
    "qstat": busy("qstat") + 'echo "Job Id: 7"; echo "    Resource_List.walltime = ${WALLTIME:-01:30:05}"',
    "flux": busy("flux") + 'echo "flux $* RESTARTS=$RESTARTS FAILED=$FAILED COMMAND=$LOCKSTEP_COMMAND" >> "$CALLS"',
    "srun": 'echo "srun $* threads=$OMP_NUM_THREADS" >> "$CALLS"; exit "${STATUS:-0}"',
    "mpirun": 'if [ "$1" = --version ]; then echo "$MPI"; else echo "mpirun $*" >> "$CALLS"; exit "${STATUS:-0}"; fi',
    "mpiexec": 'if [ "$1" = --version ]; then echo "$MPI"; else echo "mpiexec $*" >> "$CALLS"; fi',
}


class Batch(LockstepTest):
    def setUp(self):
        super().setUp()
        self.calls = self.folder / "calls"
        for name, text in STAND_INS.items():
            self.write(f"bin/{name}", f"#!/bin/sh\n{text}\n").chmod(0o755)

    def start(self, script, *arguments, **variables):
        """Starts a batch script. `variables`: of its environment; None: unset."""
        self.calls.write_text("")
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CALLS": str(self.calls), "LAUNCHER": "env",
                       "PBS_O_WORKDIR": str(self.folder), "PBS_JOBID": "7", "SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "1",
                       "DECK": "deck.yaml", "OVERRIDES": "run.seed=3 optimizer.betas=[0.9,0.99]", **variables}
        environment = {key: str(value) for key, value in environment.items() if value is not None}
        return subprocess.Popen(["bash", BATCH / script, *arguments], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, child, status):
        out, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, status, out + err)
        return err, self.calls.read_text().splitlines()

    def submitted(self, script, restarts, failed="", command="train"):
        return {"pbs.sh": "qsub -v DECK,OVERRIDES,LOCKSTEP_COMMAND,LAUNCHER,FAILED,RESTARTS,MAX_RESTARTS pbs.sh DECK=deck.yaml "
                          f"OVERRIDES=run.seed=3 optimizer.betas=[0.9,0.99] LAUNCHER=env RESTARTS={restarts} FAILED={failed} COMMAND={command}",
                "flux.sh": f"flux --parent batch {BATCH / script} deck.yaml run.seed=3 RESTARTS={restarts} FAILED={failed} COMMAND={'' if command == 'train' else command}",
                "slurm.sh": "scontrol requeue 7"}[script]

    def each(self):
        for script, arguments in (("pbs.sh", []), ("flux.sh", ["deck.yaml", "run.seed=3"]), ("slurm.sh", ["deck.yaml", "run.seed=3"])):
            with self.subTest(script=script):
                yield script, arguments

    def test_after_75_once_more(self):
        for script, arguments in self.each():
            err, calls = self.finish(self.start(script, *arguments, STATUS=75, RESTARTS=3, MAX_RESTARTS=5), 75)
            self.assertEqual(calls[1:], [self.submitted(script, 4)], err)
            self.assertTrue(calls[0].startswith("lockstep train deck.yaml run.seed=3"), calls)

    def test_a_study(self):
        """The next job gets LOCKSTEP_COMMAND, too."""
        for script, arguments in self.each():
            err, calls = self.finish(self.start(script, *arguments, STATUS=75, MAX_RESTARTS=5, LOCKSTEP_COMMAND="study"), 75)
            self.assertTrue(calls[0].startswith("lockstep study deck.yaml run.seed=3"), calls)
            self.assertEqual(calls[1:], [self.submitted(script, 1, command="study")], err)

    def test_pbs_with_a_deck_alone(self):
        """Neither OVERRIDES nor LAUNCHER are set, as in the script's own example of a study."""
        err, calls = self.finish(self.start("pbs.sh", STATUS=75, MAX_RESTARTS=5, MPI="mpirun (Open MPI) 5.0.7", OVERRIDES=None, LAUNCHER=None), 75)
        self.assertTrue(calls[0].endswith(" lockstep train deck.yaml"), calls)
        self.assertEqual(calls[1:], ["qsub -v DECK,OVERRIDES,LOCKSTEP_COMMAND,LAUNCHER,FAILED,RESTARTS,MAX_RESTARTS pbs.sh DECK=deck.yaml OVERRIDES= LAUNCHER= "
                                     "RESTARTS=1 FAILED= COMMAND=train"], err)

    def test_never_after_what_would_end_the_same_way(self):
        for script, arguments in self.each():
            for status in (0, 64, 65, 66, 70, 73, 74, 78, 127, *(128 + number for number in STOP_SIGNALS)):
                err, calls = self.finish(self.start(script, *arguments, STATUS=status), status)
                self.assertEqual(len(calls), 1, (calls, err))

    def test_once_after_a_rank_has_died(self):
        """A job is submitted again once after status 76, or a launcher's status for a lost rank or node."""
        for script, arguments in self.each():
            for status in (76, 1, 14, 137):
                (self.folder / "slurm-7.failed").unlink(missing_ok=True)
                err, calls = self.finish(self.start(script, *arguments, STATUS=status, MAX_RESTARTS=5), status)
                self.assertEqual(calls[1:], [self.submitted(script, 1, failed=status)], err)
                # The same failure in the job that was then submitted is the second one in a row.
                err, calls = self.finish(self.start(script, *arguments, STATUS=status, RESTARTS=1, FAILED=status), status)
                self.assertEqual(len(calls), 1, (calls, err))
                # A job that stops at a checkpoint resets the count of failures.
                err, calls = self.finish(self.start(script, *arguments, STATUS=75, RESTARTS=1, FAILED=status), 75)
                self.assertEqual(calls[1:], [self.submitted(script, 2)], err)

    def test_an_element_of_a_slurm_array(self):
        """The SLURM_JOB_ID of an element may be that of the array, and requeuing it would requeue all elements."""
        array = {"SLURM_ARRAY_JOB_ID": 7, "SLURM_ARRAY_TASK_ID": 2}
        err, calls = self.finish(self.start("slurm.sh", "deck.yaml", STATUS=76, **array), 76)
        self.assertEqual(calls[1:], ["scontrol requeue 7_2"], err)
        self.assertTrue((self.folder / "slurm-7_2.failed").exists())

    def test_slurm_without_cpus_per_task(self):
        err, calls = self.finish(self.start("slurm.sh", "deck.yaml", LAUNCHER=None, SLURM_CPUS_PER_TASK=None), 0)
        self.assertEqual(calls, ["srun --cpus-per-task=1 --cpu-bind=cores lockstep train deck.yaml threads=1"], err)

    def test_not_for_ever(self):
        for script, arguments in self.each():
            err, calls = self.finish(self.start(script, *arguments, STATUS=75, RESTARTS=5, SLURM_RESTART_COUNT=5, MAX_RESTARTS=5), 75)
            self.assertEqual(len(calls), 1, calls)
            self.assertRegex(err, "error: not (submitted|requeued) again after 5 restarts")

    def test_not_when_the_job_is_ended(self):
        """A job that the scheduler ends is not submitted again, but its ranks are asked to stop."""
        for script, arguments in self.each():
            ends = (signal.SIGTERM, signal.SIGHUP) if script == "flux.sh" else (signal.SIGTERM,)
            for number, submitted in (*((number, False) for number in ends), (signal.SIGINT, True)):
                (self.folder / "slurm-7.failed").unlink(missing_ok=True)
                start = time.monotonic()
                child = self.start(script, *arguments, STATUS=0, TRAINS=20)
                while child.poll() is None and not self.calls.read_text():
                    time.sleep(0.02)
                child.send_signal(number)
                err, calls = self.finish(child, 75)
                self.assertLess(time.monotonic() - start, 10)
                self.assertEqual(calls[1:], ["USR1"] + ([self.submitted(script, 1)] if submitted else []), err)

    def test_flux_warns_the_script_too(self):
        child = self.start("flux.sh", "deck.yaml", "run.seed=3", STATUS=75, TRAINS=1)
        while child.poll() is None and not self.calls.read_text():
            time.sleep(0.02)
        child.send_signal(signal.SIGUSR1)
        err, calls = self.finish(child, 75)
        self.assertEqual(calls[1:], [self.submitted("flux.sh", 1)], err)

    def no_pauses(self):
        self.write("bin/sleep", "#!/bin/sh\n").chmod(0o755)

    def test_a_scheduler_that_is_busy(self):
        self.no_pauses()
        for script, command, call in (("pbs.sh", "qsub", self.submitted("pbs.sh", 1)), ("flux.sh", "flux", self.submitted("flux.sh", 1)),
                                      ("slurm.sh", "scontrol", "scontrol requeue 7")):
            for calls_in_vain, submitted in ((3, [call]), (100, [])):
                with self.subTest(script=script, calls_in_vain=calls_in_vain):
                    (self.folder / f"bin/{command}.calls").unlink(missing_ok=True)
                    variables = {"STATUS": 75, "MAX_RESTARTS": 5, f"BUSY_{command}": calls_in_vain}
                    err, calls = self.finish(self.start(script, "deck.yaml", "run.seed=3", **variables), 75)
                    self.assertEqual(calls[1:], submitted, err)
                    self.assertEqual("submit the same command again to continue" in err, not submitted, err)

    def test_pbs_tells_when_the_time_ends(self):
        """The end that the program is told leaves time to submit the next job."""
        self.no_pauses()
        for walltime, end in (("01:30:05", 5405 - 120), ("00:10:00", 540)):
            now = time.time()
            err, calls = self.finish(self.start("pbs.sh", STATUS=0, BUSY_qstat=2, WALLTIME=walltime), 0)
            self.assertAlmostEqual(int(calls[0].split("end=")[1]), now + end, delta=10)
        err, calls = self.finish(self.start("pbs.sh", STATUS=0, BUSY_qstat=100, PBS_WALLTIME=3600), 0)
        self.assertAlmostEqual(int(calls[0].split("end=")[1]), time.time() + 3600 - 120, delta=10)

    def test_pbs_where_nodes_may_not_ask_the_server(self):
        self.no_pauses()
        err, calls = self.finish(self.start("pbs.sh", STATUS=0, BUSY_qstat=100), 0)
        self.assertAlmostEqual(int(calls[0].split("end=")[1]), time.time() + 12 * 3600 - 120, delta=10)
        self.assertIn("warning: qstat does not report the time limit of this job; assuming 43200 s", err)

    def test_pbs_knows_the_launchers(self):
        (self.folder / "nodes").write_text("a\n" * 8 + "b\n" * 8)
        for version, call in (("mpirun (Open MPI) 5.0.7", "mpirun --map-by ppr:8:node:PE=16 --bind-to core -x OMP_NUM_THREADS"),
                              ("Intel(R) MPI Library for Linux* OS, Version 2021.14", "mpirun -n 16 -ppn 8 -genv I_MPI_PIN_DOMAIN omp"),
                              ("HYDRA build details: Version: 4.2.3", "mpiexec -n 16 -ppn 8 -bind-to core:16 lockstep"),
                              ("mpiexec version 1.3.2", "mpiexec -n 16 --ppn 8 --depth 16 --cpu-bind depth")):
            err, calls = self.finish(self.start("pbs.sh", LAUNCHER="", MPI=version, PBS_NODEFILE=self.folder / "nodes"), 0)
            self.assertTrue(calls[0].startswith(call), (calls, err))
            self.assertTrue(calls[0].endswith(" lockstep train deck.yaml run.seed=3 optimizer.betas=[0.9,0.99]"), calls)
            self.assertEqual(err, "")

    def test_pbs_with_old_coreutils(self):
        self.write("bin/env", "#!/bin/sh\necho unrecognized option >&2; exit 125\n").chmod(0o755)
        err, calls = self.finish(self.start("pbs.sh", LAUNCHER="", MPI="mpirun (Open MPI) 4.1.1"), 0)
        self.assertTrue(calls[0].startswith("mpirun --map-by ppr:8:node:PE=16"), (calls, err))
        self.assertRegex(err, "^warning: env has no --block-signal.*\n$")


if __name__ == "__main__":
    program.main()
