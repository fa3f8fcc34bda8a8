# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An installed Lockstep runs, and the program in docs/user/install.md links and trains with it."""
import os
import re
import subprocess

import program
from program import SOURCE, LockstepTest, metrics

BUILD = os.environ["LOCKSTEP_BUILD_DIR"]
CMAKE = os.environ["LOCKSTEP_CMAKE"]
# Where this build found what it is made of; whoever links it says the same.
HANDED_ON = ("CMAKE_CXX_COMPILER", "CMAKE_CXX_COMPILER_LAUNCHER", "Kokkos_DIR")


def cached():
    with open(f"{BUILD}/CMakeCache.txt") as file:
        entries = dict(re.findall(r"^(\w+):\w+=(.*)$", file.read(), re.MULTILINE))
    return [f"-D{name}={entries[name]}" for name in HANDED_ON if entries.get(name)]


class Install(LockstepTest):
    def call(self, *command, limit=300):
        done = subprocess.run([*map(str, command)], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_install_link_and_train(self):
        prefix = self.folder / "prefix"
        self.call(CMAKE, "--install", BUILD, "--prefix", prefix)
        self.assertIn("Kokkos", self.call(prefix / "bin" / "lockstep", "info"))
        self.assertTrue((prefix / "share" / "lockstep" / "inputs" / "quickstart.yaml").exists())

        page = (SOURCE / "docs" / "user" / "install.md").read_text()
        section = page[page.index("## Linking the library"):]
        for language, name in (("cmake", "CMakeLists.txt"), ("cpp", "main.cpp")):
            self.write(f"solver/{name}", re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)[1])
        self.call(CMAKE, "-S", "solver", "-B", "solver/build", "-G", "Ninja", f"-DLockstep_ROOT={prefix}", *cached())
        self.call(CMAKE, "--build", "solver/build")
        self.deck()
        self.call(self.folder / "solver" / "build" / "solver", limit=60)
        self.assertEqual(len([row for row in metrics(self.folder / "run") if row["split"] == "train"]), 4)


if __name__ == "__main__":
    program.main()
