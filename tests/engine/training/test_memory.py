"""Memory that a process keeps."""

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import re
from pathlib import Path
from dpgraph.engine.training.loop import keep_freed_memory

def heap():
    text = Path("/proc/self/smaps").read_text()
    ranges = [block for block in re.split(r"\\n(?=[0-9a-f]+-[0-9a-f]+ )", text) if "[heap]" in block.splitlines()[0]]
    flags = [block.split("VmFlags:")[1].split() for block in ranges]
    sizes = [int(block.split("Size:")[1].split()[0]) for block in ranges]
    resident = sum(int(block.split("Rss:")[1].split()[0]) for block in ranges)
    return sum(size for size, some in zip(sizes, flags) if "hg" in some) >> 10, resident >> 10

imported = heap()[1]
keep_freed_memory()
first, resident = heap()
keep_freed_memory()
print(first, heap()[0], resident - imported)
"""


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists(), reason="a system without huge pages on request"
)
def test_the_heap_is_in_huge_pages_and_takes_no_memory_for_that():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    first, again, taken = (int(word) for word in done.stdout.split())
    assert first >= 192  # MiB
    assert again == first  # a second call does not grow it
    assert taken < 64


TENSORS = """
import resource
import torch
from dpgraph.engine.training.loop import keep_freed_memory

keep_freed_memory()
rows = torch.ones(1 << 24)  # 64 MiB, more than the heap keeps
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
rows + 1
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists()
    or "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text(),
    reason="a system without huge pages on request",
)
def test_large_tensors_are_in_huge_pages():
    done = subprocess.run([sys.executable, "-c", TENSORS], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 8000  # of 16,384 pages of 4 KiB; memory may be too scattered for some
