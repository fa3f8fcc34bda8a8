#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# sbatch slurm.sh DECK [key.path=value…]: trains DECK, in as many runs of one job as it takes. Copy it and edit it: the
# #SBATCH lines, how the program gets into PATH, and the launcher. docs/user/batch_jobs.md says why it is as it is.
#SBATCH --job-name=lockstep
#SBATCH --nodes=4 --ntasks-per-node=8 --cpus-per-task=16
#SBATCH --time=12:00:00
#SBATCH --signal=B:USR1@300     # to this script, 5 minutes before the end or up to a minute earlier
#SBATCH --requeue               # may run again: after a preemption, a node's failure, and when this script asks
#SBATCH --open-mode=append      # all runs of the job write to one slurm-JOBID.out

# A signal that is trapped ends `wait` early: then it waits again. SIGTERM means that Slurm ends the job (scancel, time
# limit, preemption); Slurm sends it to the ranks too.
waiting=yes terminated=no training=
trap 'waiting=yes; [ -z "$training" ] || kill -USR1 "$training"' USR1
trap 'waiting=yes terminated=yes' TERM

# module load lockstep          # or: spack env activate …; or lockstep's folder in PATH

max_restarts=${MAX_RESTARTS:-100} # of one job, whatever caused them; then it stops, to be looked at
launcher=${LAUNCHER:-srun --cpus-per-task=$SLURM_CPUS_PER_TASK --cpu-bind=cores}
# launcher="mpirun --map-by slot:PE=$SLURM_CPUS_PER_TASK --bind-to core"

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK OMP_PROC_BIND=${OMP_PROC_BIND:-spread} OMP_PLACES=${OMP_PLACES:-cores}
$launcher lockstep train "$@" & # in the background, or bash would take signals only after it
training=$!
while [ $waiting = yes ]; do
    waiting=no
    wait $training
    status=$?
done

if [ "$status" -eq 75 ] && [ $terminated = no ]; then # stopped at a checkpoint: to be run again
    if [ "${SLURM_RESTART_COUNT:-0}" -lt "$max_restarts" ]; then
        echo "stopped at a checkpoint; to be requeued"
        for pause in 1 10 60 0; do # the controller may be busy
            scontrol requeue "$SLURM_JOB_ID" && exit "$status"
            sleep $pause
        done
        echo "error: Slurm does not requeue the job; sbatch the same again, and it goes on" >&2
    else
        echo "error: not requeued again after $max_restarts restarts" >&2
    fi
fi
exit "$status"
