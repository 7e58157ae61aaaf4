"""What the subcommands that measure do, and `ogb-files`: files to measure with. Numbers depend on the machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpgraph.cli_stages import read_plan
from dpgraph.experiments.paths import Paths


def add_out(added: argparse.ArgumentParser) -> None:
    added.add_argument("--out", type=Path)


def add_bench(added: argparse.ArgumentParser) -> None:
    added.add_argument("--out", type=Path, required=True)
    added.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    text = "folder of a stored graph (default: a synthetic one with the degrees of ogbn-arxiv)"
    added.add_argument("--graph", type=Path, default=None, help=text)


def add_bench_sampling(added: argparse.ArgumentParser) -> None:
    added.add_argument("--out", type=Path, required=True)
    text = "number of nodes (default: as ogbn-products, 2.4 million)"
    added.add_argument("--nodes", type=int, default=None, help=text)
    text = "folder of the graph whose stages are repeated (default: a synthetic one of ogbn-arxiv's size)"
    added.add_argument("--graph", type=Path, default=None, help=text)


def add_bench_pagerank(added: argparse.ArgumentParser) -> None:
    added.add_argument("graph", type=Path, help="folder of the graph")
    added.add_argument("--out", type=Path, required=True)


def add_bench_peers(added: argparse.ArgumentParser) -> None:
    added.epilog = "Needs: pip install -c constraints.txt -e '.[dev,peers]'; a peer that is not there is one row."
    added.add_argument("--out", type=Path, required=True, help="CSV file; table and figure are written beside it")
    added.add_argument("--quick", action="store_true", help="batches of 100 roots only, two repeats")
    added.add_argument("--minutes", type=float, help="of CPU time, after which no further batch is measured")
    added.add_argument("--redraw", action="store_true", help="table and figure only, from the CSV file that is there")


def add_bench_size(added: argparse.ArgumentParser) -> None:
    added.epilog = "In the folder of the project. Needs 25 GB of disk at full size, and an hour of one core."
    added.add_argument("--out", type=Path, required=True, help="CSV file; a table is written beside it")
    added.add_argument("--work", type=Path, required=True, help="folder of the files, graphs and results; kept")
    added.add_argument("--kill-after", type=float, help="kill each job after so many seconds, and run it again")
    added.add_argument("--suite", default="size", help="suite whose jobs are measured (default: size)")


def add_ogb_files(added: argparse.ArgumentParser) -> None:
    added.epilog = "Example: dpgraph ogb-files ogbn-mag --nodes 1000 --out mirror"
    added.add_argument("dataset", help="ogbn-products or ogbn-mag")
    added.add_argument("--out", type=Path, required=True, help="folder to be used as a mirror")
    added.add_argument("--nodes", type=int, help="fewer nodes than the data set has, with as many edges for each")


def add_bench_workflow(added: argparse.ArgumentParser) -> None:
    added.add_argument("--out", type=Path, required=True)
    added.add_argument("--cells", type=int, default=10_000, help="number of cells to aggregate (default: 10000)")
    added.add_argument("--seeds", type=int, default=10, help="seeds of each cell (default: 10)")
    added.add_argument("--suite", default="paper", help="suite whose jobs are planned (default: paper)")


def bench(options: argparse.Namespace) -> None:
    from dpgraph.benchmarks.steps import bench as bench_step

    bench_step(options.out, options.device, folder=options.graph)


def bench_encoders(options: argparse.Namespace) -> None:
    from dpgraph.benchmarks.encoders import bench as bench_encoder_steps

    plan = read_plan(options)
    bench_encoder_steps(plan, options.out or Paths(plan.config).encoder_costs, plan.config.device)


def bench_growth(options: argparse.Namespace) -> None:
    from dpgraph.benchmarks.growth import bench as bench_sizes

    bench_sizes(options.out)


def bench_sampling(options: argparse.Namespace) -> None:
    from dpgraph.benchmarks.sampling import bench as bench_samplers

    bench_samplers(options.out, options.nodes, folder=options.graph)


def bench_pagerank(options: argparse.Namespace) -> None:
    from dpgraph.benchmarks.sampling import bench_pagerank as bench_rows

    bench_rows(options.graph, options.out)


def bench_peers(options: argparse.Namespace) -> None:
    from dpgraph.reporting.peers import write_peers

    if not options.redraw:
        from dpgraph.benchmarks.peers import CASES, QUICK, REPEATS
        from dpgraph.benchmarks.peers import bench as bench_sums

        repeats = 2 if options.quick else REPEATS
        bench_sums(options.out, QUICK if options.quick else CASES, repeats, options.minutes)
    for path in write_peers(options.out):
        print(path)


def bench_size(options: argparse.Namespace) -> None:
    from dpgraph.pipeline.size import bench as bench_stages

    bench_stages(options.out, options.work, options.kill_after, options.suite)


def ogb_files(options: argparse.Namespace) -> None:
    from dpgraph.benchmarks.ogb_files import write_files

    print("\n".join(map(str, write_files(options.dataset, options.out, options.nodes))))


def bench_workflow(options: argparse.Namespace) -> None:
    from dpgraph.benchmarks.workflow import bench as bench_scale

    bench_scale(options.out, options.cells, options.seeds, options.suite)
