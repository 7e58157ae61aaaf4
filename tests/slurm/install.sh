#!/usr/bin/env bash
# Sees to it that Slurm's daemons are there. Where they cannot be: one line that says why, and status 1.
set -u

PATH=$PATH:/usr/sbin
missing=()
for command in slurmctld slurmd munged srun; do
    command -v $command >/dev/null || missing+=("$command")
done
if [[ $(id -u) != 0 ]]; then
    echo "not root, as a Slurm of one's own needs to be"
    exit 1
fi
[[ ${#missing[@]} != 0 ]] || exit 0
if [[ ! -e /etc/debian_version ]]; then
    echo "no ${missing[*]} here, and no Debian to install them on"
    exit 1
fi
install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends slurmctld slurmd slurm-client munge
}
if ! { install || { apt-get update -q && install; }; } >/dev/null 2>&1; then
    echo "no ${missing[*]} here, and apt-get could not install slurmctld slurmd slurm-client munge"
    exit 1
fi
