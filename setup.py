"""Build the compiled engine, on all cores; the rest of the setup is in pyproject.toml.

Where a module cannot be compiled the installation goes on without it, and numpy serves; with
MMBLOOM_REQUIRE_COMPILED=1 that is an error, for those who make wheels.
"""

import os
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
# The last -O and -g that gcc reads count, and these come last: none where CFLAGS has its own, as
# .ci/sanitize has. No symbols for a debugger: writing them is a quarter of the time.
FLAGS = [] if "-O" in os.environ.get("CFLAGS", "") else ["-O3", "-g0"]
# What a header does not have is an error here, where some compilers warn and make a module that
# fails when it is imported.
FLAGS.append("-Werror=implicit-function-declaration")
OPTIONAL = os.environ.get("MMBLOOM_REQUIRE_COMPILED", "0") in ("", "0")


class BuildEngine(build_ext):
    """Translate all modules to C at once, then compile all at once."""

    def build_extensions(self) -> None:
        """Build the modules, or none where nothing can be compiled: to translate takes 20 s."""
        if not self._compiles():
            return
        self.parallel = self.parallel or os.cpu_count() or 1
        # Of what cythonize returns only the sources are taken: it forgets `optional`.
        translated = cythonize(
            self.extensions,
            nthreads=self.parallel,
            force=self.force,
            shared_utility_qualified_name=SHARED,
        )
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
                self.warn(f"the engine is not compiled, numpy's serves: {error}")
                return False
        return True


setup(
    cmdclass={"build_ext": BuildEngine},
    ext_modules=[
        Extension(SHARED, [f"{FOLDER}/_arrays.c"], extra_compile_args=FLAGS, optional=OPTIONAL),
        *(
            Extension(
                f"{FOLDER}/{PurePath(source).stem}".replace("/", "."),
                [source],
                depends=sorted(glob(f"{FOLDER}/*.pxd")),
                extra_compile_args=FLAGS,
                optional=OPTIONAL,
            )
            for source in sorted(glob(f"{FOLDER}/*.pyx"))
        ),
    ],
)
