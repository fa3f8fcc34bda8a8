#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# sbatch slurm.sh DECK [key.path=value…]: trains DECK in as many runs of one job as it takes. Copy this script and edit the
# #SBATCH lines, how the program gets into PATH, and the launcher. docs/user/batch_jobs.md explains it.
# LOCKSTEP_COMMAND=study sbatch slurm.sh STUDY runs a study in place of a training.
#SBATCH --job-name=lockstep
#SBATCH --nodes=4 --ntasks-per-node=8 --cpus-per-task=16
#SBATCH --time=12:00:00
#SBATCH --signal=B:USR1@300     # to this script, 5 minutes before the end or up to a minute earlier
#SBATCH --requeue               # may run again: after a preemption, a node's failure, and when this script asks
#SBATCH --open-mode=append      # all runs of the job write to one slurm-JOBID.out

# A trapped signal ends `wait` early, and the loop waits again. SIGTERM means that Slurm ends the job (scancel, time
# limit, preemption). Whichever of the job's processes get a signal, launchers pass SIGUSR1 on to all ranks.
waiting=yes terminated=no asked=no training=
stop_training() { asked=yes; [ -z "$training" ] || kill -USR1 "$training" 2>/dev/null; }
trap 'waiting=yes; stop_training' USR1 INT
trap 'waiting=yes terminated=yes; stop_training' TERM

# module load lockstep          # or: spack env activate …; or add lockstep's folder to PATH

# In an array, the SLURM_JOB_ID of one element is that of the whole array.
job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
job=${job:-$SLURM_JOB_ID}
max_restarts=${MAX_RESTARTS:-100} # of one job, for any reason; then the script gives up, and somebody should look at it
threads=${SLURM_CPUS_PER_TASK:-1}
launcher=${LAUNCHER:-srun --cpus-per-task=$threads --cpu-bind=cores}
# For Open MPI's mpirun, which by itself ends its ranks half a second after SIGTERM:
# launcher="env --block-signal=TERM,INT mpirun --map-by slot:PE=$threads --bind-to core"

export OMP_NUM_THREADS=$threads OMP_PROC_BIND=${OMP_PROC_BIND:-spread} OMP_PLACES=${OMP_PLACES:-cores}
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
failed=slurm-$job.failed again=no
case $status in
    75) again=yes; rm -f "$failed" ;;
    0) rm -f "$failed" ;;
    64 | 65 | 66 | 70 | 73 | 74 | 78 | 126 | 127) ;;
    129 | 130 | 138 | 140 | 143) ;; # ended on purpose, by a second SIGHUP, SIGINT, SIGUSR1, SIGUSR2 or SIGTERM
    *) [ -e "$failed" ] || { again=yes; echo "$status" >"$failed"; } ;;
esac
if [ $again = yes ] && [ $terminated = no ]; then
    if [ "${SLURM_RESTART_COUNT:-0}" -lt "$max_restarts" ]; then
        echo "ended with status $status; requeueing the job"
        for pause in 1 10 60 0; do # the controller may be busy
            scontrol requeue "$job" && exit "$status"
            sleep $pause
        done
        echo "error: Slurm does not requeue the job; submit the same command again to continue" >&2
    else
        echo "error: not requeued again after $max_restarts restarts" >&2
    fi
fi
exit "$status"
