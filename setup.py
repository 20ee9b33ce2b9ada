"""Build the compiled engine, on all cores; the rest of the setup is in pyproject.toml.

Where a module cannot be compiled the installation goes on without it, and numpy serves.
"""

import os
from glob import glob
from pathlib import PurePath

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = "mmbloom/_engine/compiled"


class BuildEngine(build_ext):
    """Translate all modules to C at once, then compile all at once."""

    def build_extensions(self) -> None:
        """Build the modules."""
        self.parallel = self.parallel or os.cpu_count() or 1
        # Of what cythonize returns only the sources are taken: it forgets `optional`.
        translated = cythonize(self.extensions, nthreads=self.parallel, force=self.force)
        sources = {module.name: module.sources for module in translated}
        for module in self.extensions:
            module.sources = sources[module.name]
        super().build_extensions()


setup(
    cmdclass={"build_ext": BuildEngine},
    ext_modules=[
        Extension(
            f"{FOLDER}/{PurePath(source).stem}".replace("/", "."),
            [source],
            depends=sorted(glob(f"{FOLDER}/*.pxd")),  # by which they come into the sdist
            extra_compile_args=["-O3"],
            optional=True,
        )
        for source in sorted(glob(f"{FOLDER}/*.pyx"))
    ],
)
