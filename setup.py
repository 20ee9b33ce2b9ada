"""Build the compiled engine, on all cores, and the README as the package index shows it.

The rest of the setup is in pyproject.toml.

Where a module cannot be compiled the installation goes on without it, and numpy serves; with
MMBLOOM_REQUIRE_COMPILED=1 that is an error, for those who make wheels. With MMBLOOM_ABI3=1 the
modules, and the wheel, are for every Python from 3.11 on, at the price of speed (abi3).
"""

import os
import re
from collections.abc import Iterable
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from glob import glob
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError

FOLDER = "mmbloom/_engine/compiled"
# What Cython's code for arrays calls, three quarters of all the C: in a module of its own, once.
SHARED = f"{FOLDER}/_arrays".replace("/", ".")
# What a module may include: where one of these changes, all are built again.
INCLUDED = [*glob(f"{FOLDER}/*.h"), *glob(f"{FOLDER}/*.pxd")]
# The last -O and -g that gcc reads count, and these come last: none where CFLAGS has its own, as
# .ci/sanitize has. No symbols for a debugger: writing them is a quarter of the time.
FLAGS = [] if "-O" in os.environ.get("CFLAGS", "") else ["-O3", "-g0"]
# What a header does not have is an error here, where some compilers warn and make a module that
# fails when it is imported.
FLAGS.append("-Werror=implicit-function-declaration")
ABI3 = os.environ.get("MMBLOOM_ABI3", "0") not in ("", "0")
LIMITED = {"define_macros": [("Py_LIMITED_API", "0x030B0000")], "py_limited_api": True}
OPTIONAL = os.environ.get("MMBLOOM_REQUIRE_COMPILED", "0") in ("", "0")


class BuildEngine(build_ext):
    """Translate all modules to C at once, then compile all at once."""

    def build_extensions(self) -> None:
        """Build the modules, or none where nothing can be compiled: to translate takes 20 s."""
        if not self._compiles():
            return
        self.parallel = self.parallel or os.cpu_count() or 1
        translate = partial(
            cythonize,
            self.extensions,
            force=self.force,
            shared_utility_qualified_name=SHARED,
            # What threads share is locked, or changed in critical sections.
            compiler_directives={"freethreading_compatible": True},
        )
        # Of what cythonize returns only the sources are taken: it forgets `optional`.
        try:
            translated = translate(nthreads=self.parallel)
        except (OSError, BrokenProcessPool):  # a container without /dev/shm has no semaphores
            translated = translate()
        sources = {module.name: module.sources for module in translated}
        for module in self.extensions:
            module.sources = sources[module.name]
        super().build_extensions()

    def _compiles(self) -> bool:
        with TemporaryDirectory() as folder:
            probe = f"{folder}/probe.c"
            Path(probe).write_text("#include <Python.h>\n", encoding="ascii")
            try:
                self.compiler.compile([probe], folder, include_dirs=self.include_dirs)
            except CCompilerError as error:
                if not OPTIONAL:
                    raise
                self.warn(f"the engine cannot be compiled, so numpy's is used: {error}")
                return False
        return True


def module(source: str, depends: Iterable[str] = ()) -> Extension:
    """Describe the extension module of a source."""
    return Extension(
        f"{FOLDER}/{PurePath(source).stem}".replace("/", "."),
        [source],
        depends=sorted(depends),
        include_dirs=[FOLDER],
        extra_compile_args=FLAGS,
        optional=OPTIONAL,
        **(LIMITED if ABI3 else {}),
    )


def description() -> str:
    """Give the README without links into the repository, which lead nowhere on the index.

    Of such a link the words stay, of a picture nothing. When the repository has a public address
    both are to begin with it.
    """
    text = Path("README.md").read_text(encoding="utf-8")
    file = r"\((?![a-z]+:)[^)]+\)"
    text = re.sub(rf"^!\[[^\]]*\]{file}\n+", "", text, flags=re.MULTILINE)
    return re.sub(rf"\[([^\]]+)\]{file}", r"\1", text)


# Not in the processes that translate: from Python 3.14 on each imports this file.
if __name__ == "__main__":
    setup(
        long_description=description(),
        long_description_content_type="text/markdown",
        cmdclass={"build_ext": BuildEngine},
        options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {},
        ext_modules=[
            module(f"{FOLDER}/_arrays.c"),
            *(module(source, INCLUDED) for source in sorted(glob(f"{FOLDER}/*.pyx"))),
        ],
    )
