"""Hatchling's hook: compile the kernel if there is a compiler; a pure wheel if there is none."""

import runpy
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before a wheel is put together, and before an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; whatever goes wrong there is a warning, and NumPy does the kernel's work."""
        script = runpy.run_path(str(Path(self.root, "src/tvdbayes/kernel/build.py")))
        out: Path = script["HOME"] / script["LIBRARY"]
        out.unlink(missing_ok=True)
        try:
            script["build"]()
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"tvdbayes is installed without its compiled kernel: {error}")
            return
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(str(out.relative_to(self.root)))
