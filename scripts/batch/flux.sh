#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# flux batch flux.sh DECK [key.path=value…]: trains DECK in as many jobs as it takes. Copy this script and edit the #flux lines
# (the next job does not get options of the command line), how the program gets into PATH, and the launcher.
# docs/user/batch_jobs.md explains it. LOCKSTEP_COMMAND=study flux batch flux.sh STUDY runs a study in place of a
# training.
#flux: --job-name=lockstep
#flux: --nodes=4 --exclusive
#flux: --time-limit=12h
#flux: --signal=USR1@5m         # to the ranks and to this script, 5 minutes before the end

# A trapped signal ends `wait` early, and the loop waits again. Flux sends its warning to the ranks, too. It ends a batch
# script by SIGHUP (flux cancel, time limit).
waiting=yes terminated=no asked=no training=
stop_training() { asked=yes; [ -z "$training" ] || kill -USR1 "$training" 2>/dev/null; }
trap 'waiting=yes' USR1
trap 'waiting=yes; stop_training' INT
trap 'waiting=yes terminated=yes; stop_training' TERM HUP

# module load lockstep          # or: spack env activate …; or add lockstep's folder to PATH

max_restarts=${MAX_RESTARTS:-100} # then the script gives up, and somebody should look at it
restarts=${RESTARTS:-0}
launcher=${LAUNCHER:-flux run --nodes=4 --ntasks=32 --cores-per-task=16 -o cpu-affinity=per-task}

export OMP_NUM_THREADS=16 OMP_PROC_BIND=${OMP_PROC_BIND:-spread} OMP_PLACES=${OMP_PLACES:-cores}
$launcher lockstep "${LOCKSTEP_COMMAND:-train}" "$@" & # in the background, or bash would handle signals only after its end
training=$!
[ $asked = no ] || stop_training # by a signal that came before the line above
while [ $waiting = yes ]; do
    waiting=no
    wait $training
    status=$?
done

# 75: stopped at a checkpoint, to be run again. 76, or a status of the launcher: a rank or a node has died, to be run again
# once; after a second time in a row, somebody should look at it.
again=no
case $status in
    75) again=yes FAILED='' ;;
    0 | 64 | 65 | 66 | 70 | 73 | 74 | 78 | 126 | 127) ;;
    129 | 130 | 138 | 140 | 143) ;; # ended on purpose, by a second SIGHUP, SIGINT, SIGUSR1, SIGUSR2 or SIGTERM
    *) [ -n "${FAILED:-}" ] || again=yes FAILED=$status ;;
esac
if [ $again = yes ] && [ $terminated = no ]; then
    if [ "$restarts" -lt "$max_restarts" ]; then
        # --parent: submits to the Flux that started this job, not to the one inside it. $0 is Flux's copy of this script. The
        # next job gets the environment of this one.
        for pause in 1 10 60 0; do # Flux may be busy
            RESTARTS=$((restarts + 1)) FAILED=$FAILED flux --parent batch "$0" "$@" && exit "$status"
            sleep $pause
        done
        echo "error: Flux does not accept the next job; submit the same command again to continue" >&2
    else
        echo "error: not submitted again after $max_restarts restarts" >&2
    fi
fi
exit "$status"
