"""The gauge of the core in Python: ../c/gauge.c as a shared library, called by ctypes.

    gauge = Gauge(folder)       compiles it in that folder, with cc
    gauge.read()                core cycles per addition now
    gauge.state(before, after)  "alone", "shared" or "mixed"
"""

import ctypes
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
STATES = ("alone", "shared", "mixed")


class Gauge:
    def __init__(self, folder):
        library = pathlib.Path(folder) / "libgauge.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I", HERE / "../../include", HERE / "../c/gauge.c", "-o", library],
                       check=True)
        self._library = ctypes.CDLL(str(library))
        for name in ("gauge_calibrate", "gauge_read", "gauge_lower_floor"):
            getattr(self._library, name).restype = ctypes.c_double
        self._library.gauge_state.argtypes = (ctypes.c_double, ctypes.c_double)
        self.floor = self._library.gauge_calibrate()
        self.read = self._library.gauge_read

    def lower_floor(self, readings):
        """Learns from the readings of all samples; decide after this which were alone."""
        array = (ctypes.c_double * len(readings))(*readings)
        self.floor = self._library.gauge_lower_floor(array, ctypes.c_size_t(len(readings)))

    def state(self, before, after):
        return STATES[self._library.gauge_state(before, after)]
