"""`snakemake --logger dpgraph`: one live line on a terminal, a plain line now and then in a log, failures at once.

Snakemake finds this package by its name and imports it on every start, so it imports nothing heavy. What Snakemake
reports otherwise is still in .snakemake/log/.
"""

from snakemake_logger_plugin_dpgraph.handler import LogHandler, LogHandlerSettings

__all__ = ["LogHandler", "LogHandlerSettings"]
