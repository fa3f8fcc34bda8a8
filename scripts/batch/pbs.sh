#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# qsub -v DECK=deck.yaml pbs.sh: trains DECK, in as many jobs as it takes. Copy it and edit it: the #PBS lines (options
# given on the command line are not those of the next job), how the program gets into PATH, the launcher, changes to the
# deck behind "$DECK", and this file's name where it submits itself. docs/user/batch_jobs.md says why it is as it is.
#PBS -N lockstep
#PBS -l select=4:ncpus=128:mpiprocs=8:ompthreads=16
#PBS -l walltime=12:00:00
#PBS -r y
#PBS -j oe

# A signal that is trapped ends `wait` early: then it waits again. SIGTERM means that PBS ends the job (qdel, walltime); the
# ranks have it too.
waiting=yes terminated=no
trap 'waiting=yes terminated=yes' TERM

started=$(date +%s)
cd "$PBS_O_WORKDIR" || exit
# module load lockstep          # or: spack env activate …; or lockstep's folder in PATH

script=pbs.sh                   # this file, where it was submitted
max_restarts=${MAX_RESTARTS:-100} # then it stops, to be looked at
restarts=${RESTARTS:-0}

export OMP_NUM_THREADS OMP_PROC_BIND=${OMP_PROC_BIND:-spread} OMP_PLACES=${OMP_PLACES:-cores}
launcher=${LAUNCHER:-mpirun --map-by ppr:8:node:PE=16 --bind-to core
  -x OMP_NUM_THREADS -x OMP_PROC_BIND -x OMP_PLACES -x LOCKSTEP_JOB_END_TIME}

# PBS gives no warning before the end of the walltime and names it in no variable: the program is told when that is.
for pause in 1 10 60 0; do # the server may be busy
    walltime=$(qstat -f "$PBS_JOBID" | awk '$1 == "Resource_List.walltime" { split($3, t, ":"); print 3600 * t[1] + 60 * t[2] + t[3] }')
    [ -z "$walltime" ] || break
    sleep $pause
done
if [ -z "$walltime" ]; then
    echo "error: qstat does not say how long this job may run; its last steps would be lost" >&2
    exit 1
fi
# Less what the end of the run and the submission of the next job may take.
export LOCKSTEP_JOB_END_TIME=$((started + walltime - (walltime > 1200 ? 120 : walltime / 10)))

$launcher lockstep train "$DECK" & # in the background, or bash would take signals only after it
training=$!
while [ $waiting = yes ]; do
    waiting=no
    wait $training
    status=$?
done

if [ "$status" -eq 75 ] && [ $terminated = no ]; then # stopped at a checkpoint: to be run again
    if [ "$restarts" -lt "$max_restarts" ]; then
        for pause in 1 10 60 0; do # the server may be busy; not qrerun, which is for operators only
            qsub -v "DECK=$DECK,RESTARTS=$((restarts + 1)),MAX_RESTARTS=$max_restarts" "$script" && exit "$status"
            sleep $pause
        done
        echo "error: PBS does not take the next job; submit the same again, and it goes on" >&2
    else
        echo "error: not submitted again after $max_restarts restarts" >&2
    fi
fi
exit "$status"
