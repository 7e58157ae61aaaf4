#!/usr/bin/env bash
# A Slurm of three nodes for the tests, everything below $DPGRAPH_SLURM except the link /etc/slurm/slurm.conf:
# munged, slurmctld and a slurmd per node, without systemd, cgroups or accounting. Prints the environment of its clients.
#
#   exports=$(tests/slurm/start.sh) && eval "$exports"     # all of it
#   tests/slurm/start.sh slurmd.lost                       # one daemon again
#
# Needs root and what install.sh installs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=${DPGRAPH_SLURM:-${TMPDIR:-/tmp}/dpgraph-slurm}
host=$(hostname -s)
PATH=$PATH:/usr/sbin
export SLURM_CONF=$root/slurm.conf

fail() {
    echo "error: slurm: $*" >&2
    exit 1
}

wait_for() { # wait_for WHAT COMMAND...
    local what=$1
    shift
    for _ in $(seq 300); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    tail -n 5 "$root"/*.log >&2 || true
    fail "$what did not come up in 30 s"
}

taken() { (: </dev/tcp/127.0.0.1/"$1") 2>/dev/null; }

configure() {
    local port number device spare=(/dev/null /dev/zero /dev/full /dev/random)
    port=$((20000 + RANDOM % 10000)) # below the ports that the kernel hands out
    while taken "$port" || taken $((port + 1)) || taken $((port + 2)) || taken $((port + 3)); do
        port=$((20000 + RANDOM % 10000))
    done
    sed -e "s|@ROOT@|$root|g; s|@HOST@|$host|g; s|@PORT@|$port|; s|@CALM_PORT@|$((port + 1))|" \
        -e "s|@RESTARTED_PORT@|$((port + 2))|; s|@LOST_PORT@|$((port + 3))|" \
        -e "s|@SRUN_PORTS@|$((port + 4))-$((port + 1000))|" "$here/slurm.conf.in" >"$SLURM_CONF"
    # The Snakemake inside a job drops SLURM_CONF before its srun, which then looks here.
    [[ ! -e /etc/slurm/slurm.conf || -L /etc/slurm/slurm.conf ]] || fail "/etc/slurm/slurm.conf: a Slurm is configured here"
    mkdir -p /etc/slurm
    ln -sfn "$SLURM_CONF" /etc/slurm/slurm.conf
    # GPUs that can only be counted: Slurm wants one character device each, nothing opens them.
    : >"$root/gres.conf"
    for number in 0 1 2 3; do
        device=$root/gpu$number
        mknod "$device" c 1 3 2>/dev/null || device=${spare[number]}
        echo "NodeName=calm,restarted,lost Name=gpu File=$device" >>"$root/gres.conf"
    done
}

start() {
    case $1 in
        munged)
            [[ -s $root/munge/key ]] || (umask 077 && head -c 1024 /dev/urandom >"$root/munge/key")
            munged --force --num-threads=2 --key-file="$root/munge/key" --socket="$root/munge/socket" \
                --pid-file="$root/munged.pid" --log-file="$root/munged.log" --seed-file="$root/munge/seed"
            wait_for munged test -S "$root/munge/socket"
            ;;
        slurmctld)
            slurmctld
            wait_for slurmctld sh -c 'scontrol ping | grep -q UP'
            ;;
        slurmd.*)
            slurmd -N "${1#*.}" -f "$SLURM_CONF"
            wait_for "$1" sh -c "sinfo -h -n ${1#*.} -o %t | grep -qE '^(idle|mix|alloc)\$'"
            ;;
        *) fail "daemon=$1: expected munged, slurmctld, slurmd.calm, slurmd.restarted or slurmd.lost" ;;
    esac
}

if [[ $# == 0 ]]; then
    pid=$(cat "$root/slurmctld.pid" 2>/dev/null || true)
    [[ -z $pid || ! -e /proc/$pid ]] || fail "$root: runs already; stop.sh ends it"
    rm -rf "$root"
    mkdir -p "$root"/{munge,state,spool}
    chmod 755 "$root" "$root/munge"
    trap '[[ $? == 0 ]] || "$here/stop.sh"' EXIT
    configure
    set -- munged slurmctld slurmd.calm slurmd.restarted slurmd.lost
    echo "export DPGRAPH_SLURM='$root' SLURM_CONF='$SLURM_CONF'"
fi
for daemon in "$@"; do start "$daemon"; done
