#!/usr/bin/env bash
# Ends what start.sh started, by recorded process id: `stop.sh slurmctld` one daemon, `stop.sh` all, with all jobs.
set -u

root=${DPGRAPH_SLURM:-${TMPDIR:-/tmp}/dpgraph-slurm}
export SLURM_CONF=$root/slurm.conf
[[ -e $SLURM_CONF ]] || exit 0

stop() {
    local pid state
    pid=$(cat "$root/$1.pid" 2>/dev/null) || return
    kill "$pid" 2>/dev/null
    for _ in $(seq 100); do
        state=$(awk '{print $3}' "/proc/$pid/stat" 2>/dev/null) || break
        [[ -z $state || $state == Z ]] && break # a zombie, where nobody reaps, is gone too
        sleep 0.1
    done
    rm -f "$root/$1.pid"
}

if [[ $# == 0 ]]; then
    timeout 10 scancel --user=root 2>/dev/null
    for _ in $(seq 100); do
        [[ -n $(timeout 10 squeue -h 2>/dev/null) ]] || break
        sleep 0.1
    done
    for daemon in slurmd.calm slurmd.restarted slurmd.lost slurmctld munged; do stop "$daemon"; done
    [[ $(readlink /etc/slurm/slurm.conf 2>/dev/null) != "$SLURM_CONF" ]] || rm -f /etc/slurm/slurm.conf
    rm -rf "$root"
else
    for daemon in "$@"; do stop "$daemon"; done
fi
