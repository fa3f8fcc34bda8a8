#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# DECK=deck.yaml OVERRIDES='key.path=value …' qsub -v DECK,OVERRIDES pbs.sh: trains DECK in as many jobs as it takes. Copy this
# script and edit the #PBS lines (the next job does not get options of the command line), how the program gets into PATH, the
# launcher, and this file's name where it submits itself. docs/user/batch_jobs.md explains it.
# DECK=study.yaml LOCKSTEP_COMMAND=study qsub -v DECK,LOCKSTEP_COMMAND pbs.sh runs a study in place of a training.
#PBS -N lockstep
#PBS -l select=4:ncpus=128:mpiprocs=8:ompthreads=16
#PBS -l walltime=12:00:00
#PBS -r y
#PBS -j oe

# A trapped signal ends `wait` early, and the loop waits again. SIGTERM means that PBS ends the job (qdel, walltime).
waiting=yes terminated=no asked=no training=
stop_training() { asked=yes; [ -z "$training" ] || kill -USR1 "$training" 2>/dev/null; }
trap 'waiting=yes; stop_training' USR1 INT
trap 'waiting=yes terminated=yes; stop_training' TERM

started=$(date +%s)
cd "$PBS_O_WORKDIR" || exit
# module load lockstep          # or: spack env activate …; or add lockstep's folder to PATH

export LOCKSTEP_COMMAND=${LOCKSTEP_COMMAND:-train}
script=pbs.sh                   # the name of this file in the folder of the submission
max_restarts=${MAX_RESTARTS:-100} # then the script gives up, and somebody should look at it
restarts=${RESTARTS:-0}
threads=16

export OMP_NUM_THREADS=$threads OMP_PROC_BIND=${OMP_PROC_BIND:-spread} OMP_PLACES=${OMP_PLACES:-cores}
ranks=$(wc -l <"${PBS_NODEFILE:-/dev/null}")
launcher=${LAUNCHER:-}
[ -n "$launcher" ] || case $({ mpirun --version || mpiexec --version; } 2>&1) in
    *"Open MPI"* | *PRRTE*) # ends its ranks half a second after SIGTERM, and passes variables only with -x
        shield='env --block-signal=TERM,INT'
        $shield true 2>/dev/null || {
            shield=''
            echo "warning: env has no --block-signal (added in coreutils 8.31): after SIGTERM, mpirun ends the ranks without a checkpoint" >&2
        }
        launcher="$shield mpirun --map-by ppr:8:node:PE=$threads --bind-to core
          -x OMP_NUM_THREADS -x OMP_PROC_BIND -x OMP_PLACES -x LOCKSTEP_JOB_END_TIME" ;;
    *Intel*) launcher="mpirun -n $ranks -ppn 8 -genv I_MPI_PIN_DOMAIN omp" ;;
    *HYDRA*) launcher="mpiexec -n $ranks -ppn 8 -bind-to core:$threads" ;; # MPICH, MVAPICH
    *) launcher="mpiexec -n $ranks --ppn 8 --depth $threads --cpu-bind depth" ;; # Cray PALS
esac

# PBS gives no warning before the end of the walltime, and some versions set no variable for it: this script tells the program
# when that is. Where compute nodes may not ask the server, it takes the walltime of its own #PBS line.
in_seconds() { awk -F: '{ s = 0; for (i = 1; i <= NF; ++i) s = 60 * s + $i; print s }'; }
walltime=${PBS_WALLTIME:-} given_walltime=${PBS_WALLTIME:+PBS_WALLTIME}
for pause in 1 10 60 0; do # the server may be busy
    [ -z "$walltime" ] || break
    walltime=$(timeout 30 qstat -f "$PBS_JOBID" 2>/dev/null | awk '$1 == "Resource_List.walltime" { print $3 }' | in_seconds)
    [ -n "$walltime" ] || sleep $pause
done
if [ -z "$walltime" ]; then
    walltime=$(sed -n 's/^#PBS -l .*walltime=\([0-9:]*\).*/\1/p' "$0" | head -n 1 | in_seconds)
    echo "warning: qstat does not report the time limit of this job${walltime:+; assuming $walltime s, from the #PBS line of this script}" >&2
fi
if [ -z "$walltime" ]; then
    echo "error: the time limit of this job is unknown (its last steps would be lost); set PBS_WALLTIME, in seconds" >&2
    exit 1
fi
# The end leaves time for the end of the run, and for submitting the next job.
export LOCKSTEP_JOB_END_TIME=$((started + walltime - (walltime > 1200 ? 120 : walltime / 10)))

# shellcheck disable=SC2086 # several words each
$launcher lockstep "$LOCKSTEP_COMMAND" "$DECK" ${OVERRIDES:-} & # in the background, or bash would handle signals only after its end
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
        # -v has names alone: their values, which may have commas, come from the environment, in which qsub requires all of them.
        export DECK OVERRIDES=${OVERRIDES:-} LAUNCHER=${LAUNCHER:-} FAILED RESTARTS=$((restarts + 1)) MAX_RESTARTS=$max_restarts
        for pause in 1 10 60 0; do # the server may be busy; qrerun is for operators only
            qsub -v DECK,OVERRIDES,LOCKSTEP_COMMAND,LAUNCHER,FAILED,RESTARTS,MAX_RESTARTS${given_walltime:+,$given_walltime} "$script" && exit "$status"
            sleep $pause
        done
        echo "error: PBS does not accept the next job; submit the same command again to continue" >&2
    else
        echo "error: not submitted again after $max_restarts restarts" >&2
    fi
fi
exit "$status"
