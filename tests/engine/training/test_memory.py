"""Memory that a process keeps."""

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import re
from pathlib import Path
import torch
from dpgraph.engine.training.loop import keep_freed_memory

def blocks():
    return re.split(r"\\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())

def flags(block):
    return block.split("VmFlags:")[1].split()

def heap():
    ranges = [block for block in blocks() if "[heap]" in block.splitlines()[0]]
    sizes = [int(block.split("Size:")[1].split()[0]) for block in ranges]
    resident = sum(int(block.split("Rss:")[1].split()[0]) for block in ranges)
    return sum(size for size, block in zip(sizes, ranges) if "hg" in flags(block)) >> 10, resident >> 10

imported = heap()[1]
keep_freed_memory()
first, resident = heap()
keep_freed_memory()
print(first, heap()[0], resident - imported)
rows = torch.empty(1 << 27)  # 512 MiB, more than the heap keeps; no page of it is touched
middle = rows.data_ptr() + rows.nbytes // 2
for block in blocks():
    begin, end = (int(address, 16) for address in block.split()[0].split("-"))
    if begin <= middle < end:
        print("hg" in flags(block))
"""


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists(), reason="a system without huge pages on request"
)
def test_the_heap_and_large_tensors_are_in_huge_pages_and_the_heap_takes_no_memory_for_that():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    numbers, tensor = done.stdout.splitlines()
    first, again, taken = (int(word) for word in numbers.split())
    assert first >= 192  # MiB
    assert again == first  # a second call does not grow it
    assert taken < 64
    # huge pages are requested: whether Linux then gives them depends on how scattered free memory is
    assert tensor == "True"
