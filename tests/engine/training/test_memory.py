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
import re
from pathlib import Path
import torch
from dpgraph.engine.training.loop import keep_freed_memory

keep_freed_memory()
rows = torch.empty(1 << 27)  # 512 MiB, more than the heap keeps; no page of it is touched
middle = rows.data_ptr() + rows.nbytes // 2
for block in re.split(r"\\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
    begin, end = (int(address, 16) for address in block.split()[0].split("-"))
    if begin <= middle < end:
        print("hg" in block.split("VmFlags:")[1].split())
"""


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists(), reason="a system without huge pages on request"
)
def test_huge_pages_are_requested_for_large_tensors():
    # whether Linux then gives them depends on how scattered free memory is
    done = subprocess.run([sys.executable, "-c", TENSORS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
