# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scripts/lockstep in the toolchain that runs this test: ranks, exit statuses and folders."""
import os
import pathlib
import shutil
import subprocess
import unittest

import program
from program import SOURCE, LockstepTest, summary

PRESET = pathlib.Path(os.environ["LOCKSTEP_BUILD_DIR"]).name
IN_PLACE = pathlib.Path(os.environ["LOCKSTEP_BUILD_DIR"]) == SOURCE / "build" / PRESET


@unittest.skipUnless(IN_PLACE, "the build folder is not the one that scripts/lockstep uses")
class Scripts(LockstepTest):
    def script(self, *arguments, cwd=None):
        return subprocess.run([SOURCE / "scripts" / "lockstep", *arguments], cwd=cwd or self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120)

    def test_trains_on_two_ranks_in_a_folder_with_a_space(self):
        folder = self.deck("my decks/deck.yaml").parent
        done = self.script("-n", "2", "--preset", PRESET, "train", "deck.yaml", cwd=folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(summary(folder / "run")["ranks"], 2)

    def test_options_anywhere_on_the_line(self):
        self.deck()
        for number, line in enumerate((["train", "-n", "2", "--preset", PRESET, "deck.yaml"],
                                       ["train", "deck.yaml", f"--preset={PRESET}", "-n2"],
                                       ["--ranks=2", "train", "deck.yaml", "--preset", PRESET])):
            done = self.script(*line, f"run.output_dir=run{number}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(summary(self.folder / f"run{number}")["ranks"], 2, line)
        done = self.script("check", "deck.yaml", "--ranks", "3", "--preset", PRESET)
        self.assertIn("batch 16 = 3 ranks", done.stdout, "after its command, --ranks is that of check")

    def test_exit_statuses_come_through(self):
        for ranks in ("1", "2"):
            done = self.script("-n", ranks, "--preset", PRESET, "train", "nothing.yaml")
            self.assertEqual(done.returncode, 66, done.stderr)
            self.assertEqual([line for line in done.stderr.splitlines() if line.startswith("error:")],
                             ["error: nothing.yaml: no such file; check the path (relative paths start at the working folder)"])

    def test_a_limit_of_time(self):
        """A run that `timeout` ends stops at a checkpoint, with status 75."""
        self.deck(run={"steps": 10000000, "output_dir": "run", "log_every": 1000})
        for ranks in ("1", "2"):
            done = subprocess.run(["timeout", "--preserve-status", "10", SOURCE / "scripts/lockstep", "-n", ranks, "--preset", PRESET, "train", "deck.yaml"],
                                  cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 75, done.stdout + done.stderr)
            self.assertIn("stopped at step", done.stdout)
            self.assertEqual(summary(self.folder / "run")["status"], "stopped")

    def test_quickstart_says_where_its_results_are(self):
        default = subprocess.run([SOURCE / "scripts/env", "--which"], capture_output=True, text=True, check=True).stdout.split()[1]
        if default != PRESET:
            self.skipTest("scripts/quickstart takes another preset here")
        done = subprocess.run([SOURCE / "scripts/quickstart", "run.steps=1", f"run.output_dir={self.folder / 'results'}"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"The results are in {self.folder / 'results'}:", done.stdout)
        self.assertEqual(summary(self.folder / "results")["steps"], 1)

    def test_bad_usage(self):
        for arguments in (["-n", "0"], ["-n", "two"], ["-n"], ["--ranks", "0"], ["--ranks=two"], ["--preset", "fast"], ["--preset"],
                          ["info", "-n", "0"], ["info", "-n"], ["info", "--preset", "fast"]):
            self.assertEqual(self.script(*arguments).returncode, 64, arguments)
        done = self.script("-np", "2", "train", "deck.yaml")
        self.assertEqual((done.returncode, done.stderr), (64, "error: -np: no such option; write -n 2\n"))

    def copy(self, env):
        """A copy of scripts/lockstep, with a stand-in for scripts/env."""
        script = self.folder / "scripts" / "lockstep"
        script.parent.mkdir()
        shutil.copy(SOURCE / "scripts" / "lockstep", script)
        self.write("scripts/env", f"#!/bin/sh\n{env}\n").chmod(0o755)
        return script

    def test_every_preset_of_the_message_is_taken(self):
        """This holds also through a link, such as one in a folder of PATH."""
        script = self.copy(env='echo "$@"')
        link = self.folder / "lockstep"
        link.symlink_to("scripts/lockstep")
        refusal = self.script("--preset", "fast").stderr
        for preset in ("serial", "openmp", "cuda", "hip", "spack"):
            self.assertIn(preset, refusal)
            for name in (script, link):
                done = subprocess.run([name, "--preset", preset, "info"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(done.stdout.endswith(f"{self.folder.resolve()}/build/{preset}/app/lockstep info\n"), done.stdout)

    def test_ranks_without_mpirun(self):
        """Where only srun starts ranks, as on a Cray, the refusal comes before anything is built."""
        done = subprocess.run([self.copy(env='echo "$@" >> "$CALLS"'), "--preset", "serial", "-n", "2", "info"], env={**os.environ, "CALLS": str(self.folder / "calls")},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 64, done.stderr)
        self.assertRegex(done.stderr, r"^error: -n 2: this toolchain has no mpirun in PATH.*\(such as srun -n 2\)\n$")
        self.assertNotIn("toolchain/build", (self.folder / "calls").read_text())


class Build(LockstepTest):
    def test_configures_afresh_for_other_modules(self):
        """Other modules must not go on with the MPI that CMake remembers."""
        for name in ("build", "cores", "settings"):
            (self.folder / "scripts/toolchain").mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / "scripts/toolchain" / name, self.folder / "scripts/toolchain")
        self.write("bin/cmake", '#!/bin/sh\ncase $1 in --fresh) mkdir -p build/serial; echo x >> build/serial/build.ninja ;; esac\n').chmod(0o755)

        def configurations(**variables):
            subprocess.run([self.folder / "scripts/toolchain/build", "serial"], check=True, capture_output=True, timeout=60,
                           env={"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "LOADEDMODULES": "gcc/13:openmpi/4", **variables})
            return len((self.folder / "build/serial/build.ninja").read_text().splitlines())
        self.assertEqual([configurations(), configurations(LOCKSTEP_BUILD_DIR="/elsewhere", SLURM_SUBMIT_DIR="/elsewhere", CMAKE_BUILD_PARALLEL_LEVEL="2"),
                          configurations(LOADEDMODULES="gcc/13:openmpi/5"), configurations(LOADEDMODULES="gcc/13:openmpi/5", HDF5_ROOT="/opt/hdf5")], [1, 1, 2, 3])


class Launch(LockstepTest):
    def test_with_the_tools_of_an_older_system(self):
        """The tools of RHEL 8 know neither option."""
        self.write("bin/setpriv", "#!/bin/sh\nexit 1\n").chmod(0o755)
        self.write("bin/env", '#!/bin/sh\ncase $1 in --block-signal*) exit 125 ;; esac\nexec /usr/bin/env "$@"\n').chmod(0o755)
        self.write("bin/mpirun", '#!/bin/sh\n[ "$1" != --version ] || { echo mpirun of Open MPI; exit; }\necho "mpirun $*"\nexit 75\n').chmod(0o755)
        done = subprocess.run([SOURCE / "scripts/toolchain/launch", "2", "serial", program.PROGRAM, "train", "deck.yaml"], cwd=self.folder,
                              env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 75, done.stderr)
        self.assertRegex(done.stdout, f"^mpirun -n 2 .*{program.PROGRAM} train deck.yaml\n$")
        self.assertEqual([line.split(" (")[0] for line in done.stderr.splitlines()],
                         ["warning: env has no --block-signal", "warning: setpriv has no --pdeathsig"])

    def test_without_standard_streams(self):
        """A job may be sent to the background in this way."""
        self.deck()
        for closed in ("<&- >&- 2>&-", ">&- 2>&-", "<&- 2>&-"):
            with self.subTest(closed):
                done = subprocess.run(["sh", "-c", f'exec "$0" 2 serial "$1" train deck.yaml run.overwrite=true run.resume=never {closed}',
                                       SOURCE / "scripts/toolchain/launch", program.PROGRAM], cwd=self.folder, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
                self.assertEqual(done.returncode, 0)
                self.assertEqual(summary(self.folder / "run")["ranks"], 2)
                shutil.rmtree(self.folder / "run")


if __name__ == "__main__":
    program.main()
