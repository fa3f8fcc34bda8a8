# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An installed Lockstep runs, and other programs train with it: the one of docs/user/embed.md, and examples/embed."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import program
from program import SOURCE, LockstepTest

BUILD = os.environ["LOCKSTEP_BUILD_DIR"]
CMAKE = os.environ["LOCKSTEP_CMAKE"]
# Cache entries of this build that a program that links Lockstep must give, too.
HANDED_ON = ("CMAKE_CXX_COMPILER", "CMAKE_CXX_COMPILER_LAUNCHER", "Kokkos_DIR")


def cached():
    with open(f"{BUILD}/CMakeCache.txt") as file:
        entries = dict(re.findall(r"^(\w+):\w+=(.*)$", file.read(), re.MULTILINE))
    return [f"-D{name}={entries[name]}" for name in HANDED_ON if entries.get(name)]


def program_on(ranks):
    """A launcher's command with a time limit: `timeout` ends mpirun, which ends its ranks."""
    return ["timeout", "--kill-after=10", "60", *program.MPIEXEC, str(ranks)]


class Install(LockstepTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.installed = tempfile.TemporaryDirectory()
        cls.prefix = pathlib.Path(cls.installed.name) / "prefix"
        done = subprocess.run([CMAKE, "--install", BUILD, "--prefix", cls.prefix], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.installed.cleanup()
        super().tearDownClass()

    def call(self, *command, limit=300):
        done = subprocess.run([*map(str, command)], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def configure(self, source, *options):
        return self.call(CMAKE, "-S", source, "-B", "build", "-G", "Ninja", f"-DLockstep_ROOT={self.prefix}", *cached(), *options)

    def build(self, source):
        self.configure(source)
        self.call(CMAKE, "--build", "build")
        return self.folder / "build"

    def test_what_is_installed(self):
        self.assertIn("Kokkos", self.call(self.prefix / "bin" / "lockstep", "info"))
        self.assertTrue((self.prefix / "share" / "lockstep" / "inputs" / "quickstart.yaml").exists())
        include = self.prefix / "include"
        self.assertEqual([path.name for path in include.iterdir()], ["lockstep"])
        for header in include.rglob("*.hpp"):
            for name in re.findall(r'#include "(.*)"', header.read_text()):
                self.assertTrue((include / name).exists(), f"{header}: {name}")

    def test_installation_leaves_the_build_alone(self):
        def headers():
            return {path: path.stat().st_mtime_ns for path in pathlib.Path(BUILD, "include").rglob("*")}
        before = headers()
        self.call(CMAKE, "--install", BUILD, "--prefix", self.folder / "second")
        self.assertTrue(before)
        self.assertTrue(headers() == before, "its headers were written anew")

    def test_what_the_package_needs(self):
        project = "cmake_minimum_required(VERSION 3.25)\nproject(user LANGUAGES C CXX)\nfind_package(Lockstep 0.1 {})\n"
        self.write("program/CMakeLists.txt", project.format("REQUIRED"))
        self.configure("program", "-DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON")  # only the command line needs CLI11
        self.write("optional/CMakeLists.txt", project.format("QUIET") + 'if(NOT Lockstep_FOUND)\n  message(STATUS "without: ${Lockstep_NOT_FOUND_MESSAGE}")\nendif()\n')
        shutil.rmtree(self.folder / "build")
        self.assertIn("-- without: Lockstep could not be found because dependency spdlog could not be found",
                      self.configure("optional", "-DCMAKE_DISABLE_FIND_PACKAGE_spdlog=ON"))
        old = "set(CMAKE_CXX_COMPILER_ID GNU)\nset(CMAKE_CXX_COMPILER_VERSION 11.4)\nfind_package"
        self.write("optional/CMakeLists.txt", (self.folder / "optional/CMakeLists.txt").read_text().replace("find_package", old))
        self.assertRegex(self.configure("optional"), "-- without: .* is GCC 11.4, but Lockstep is C\\+\\+20 and needs GCC 12 or newer")
        # CMake reports a missing target, but takes a name without :: for a library of the system.
        targets = next(self.prefix.glob("lib*/**/LockstepTargets.cmake")).read_text()
        for name in re.findall(r"\$<LINK_ONLY:([^>]+)>", targets):
            self.assertRegex(name, "::|^/|^(dl|MIOpen)$")

    def test_the_program_of_the_page(self):
        page = (SOURCE / "docs" / "user" / "embed.md").read_text()
        for language, name in (("cmake", "CMakeLists.txt"), ("cpp", "main.cpp")):
            self.write(f"solver/{name}", re.search(rf"```{language}\n(.*?)```", page, re.DOTALL)[1])
        solver = self.build("solver") / "solver"
        for ranks in (1, 2):
            self.assertRegex(self.call(*program_on(ranks), solver, limit=90), r"after 200 steps: loss 0\.0[01]")

    def test_the_example(self):
        embed = self.build(SOURCE / "examples" / "embed") / "embed"
        self.assertLess(len((SOURCE / "examples" / "embed" / "main.cpp").read_text().splitlines()), 150)
        said = self.call(*program_on(4), embed, limit=90)
        self.assertEqual(len(re.findall(r"rank \d, which (?:trained|computed): the network differs from the solver by 0\.0", said)), 4, said)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["build", "pendulum.h5"])


if __name__ == "__main__":
    program.main()
