# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders of runs where this user may not write everything: a run says so before its first step."""
import os
import shutil
import subprocess

import program
from program import snapshot
from run_folder_test import ENDLESS, Folder


class ReadOnly(Folder):
    def train_in_read_only_folder(self, *overrides, command="train", folder="run"):
        command = [program.PROGRAM, command, "deck.yaml", *overrides]
        if os.geteuid() == 0:  # permissions do not stop root
            command = ["unshare", "--mount", "sh", "-c", f'mount --bind {folder} {folder} && mount -o remount,bind,ro {folder} || exit 99; exec "$@"', "sh", *command]
        (self.folder / folder).chmod(0o555)
        self.addCleanup((self.folder / folder).chmod, 0o755)
        result = subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if os.geteuid() == 0 and (result.returncode == 99 or "unshare failed" in result.stderr):
            self.skipTest("nothing can be mounted here")
        return result

    def test_a_run_that_has_ended_is_found_to_be_so(self):
        self.deck()
        self.lockstep("train", "deck.yaml")
        before = snapshot(self.folder / "run")
        result = self.train_in_read_only_folder()
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("nothing is left to do", result.stdout)
        result = self.train_in_read_only_folder("run.steps=6")
        self.assertEqual(result.returncode, 73, result)
        self.assertRegex(result.stderr, r"^error: run: the output folder cannot be created or changed \((Read-only file system|Permission denied)\); "
                                        r"choose another run.output_dir\n$")
        self.assertEqual(snapshot(self.folder / "run"), before)


    def test_a_run_that_could_write_no_checkpoint_does_not_begin(self):
        self.deck()
        (self.folder / "run/checkpoints").mkdir(parents=True)
        for command in ("check", "train"):
            result = self.train_in_read_only_folder(command=command, folder="run/checkpoints")
            self.assertEqual(result.returncode, 73, result)
            self.assertRegex(result.stderr, r"run/checkpoints: the output folder cannot be created or changed \((Read-only file system|Permission denied)\); ")
        self.assertFalse((self.folder / "run/metrics.csv").exists())

    def test_links_that_lead_nowhere(self):
        self.deck()
        (self.folder / "run").symlink_to("gone")
        words = "the output folder cannot be created or changed (it is a link to gone, which does not exist); choose another run.output_dir"
        self.refused(73, ["run: the output folder cannot be created or changed"], "check", "deck.yaml")
        self.refused(73, [f"run: {words}"], "train", "deck.yaml", ranks=2)
        (self.folder / "run").unlink()
        (self.folder / "run").mkdir()
        (self.folder / "run/checkpoints").symlink_to("gone")
        self.refused(73, ["run/checkpoints: the output folder cannot be created or changed"], "check", "deck.yaml")
        self.refused(73, [f"run/checkpoints: {words}"], "train", "deck.yaml", ranks=2)

    def test_a_stale_lock_that_may_not_be_removed(self):
        """In a folder for everybody, only a file's owner may remove it: another user's run is refused, and does not wait for ever."""
        if os.geteuid() != 0:
            self.skipTest("takes two users")
        self.deck(run=ENDLESS)
        child = self.start()
        self.wait_for_steps()
        child.kill()
        child.wait()
        self.folder.chmod(0o755)
        (self.folder / "run").chmod(0o1777)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program.PROGRAM]
        if not shutil.which("setpriv") or subprocess.run([*command, "--version"], capture_output=True).returncode != 0:
            self.skipTest("another user cannot start the program")
        (self.folder / "tmp").mkdir()
        (self.folder / "tmp").chmod(0o1777)
        environment = {**os.environ, "TMPDIR": str(self.folder / "tmp"), "OMPI_MCA_btl_sm_backing_directory": str(self.folder / "tmp")}
        result = subprocess.run([*command, "train", "deck.yaml"], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                                env=environment)
        self.assertEqual(result.returncode, 73, result)
        self.assertRegex(result.stderr, r"^error: run/lock: belongs to a?.*run that has ended \(.*\), but cannot be removed \(Operation not permitted\); choose another run.output_dir")


if __name__ == "__main__":
    program.main()
