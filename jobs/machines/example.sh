# The modules and variables of one cluster; the job scripts source it
# when MANIPLE_MACHINE=example. Copy it to jobs/machines/<site>.sh,
# and fill in when and with which versions it was tried:
#
# module purge
# module load gcc/12 openmpi/4.1 hdf5/1.14-parallel cuda/12.4 nccl cmake ninja python/3.11
#
# Building on this cluster, in an interactive job of the kind of node that will run it:
#   cmake -S . -B build -G Ninja -DKokkos_ROOT=$KOKKOS_HOME
#   ninja -C build maniple

# Open MPI on an Ethernet cluster: keep MPI off interfaces that only the login node has.
# export OMPI_MCA_btl_tcp_if_include=eth0

# OMPIO's helper for shared file pointers leaves lock files behind after a crash; it is never used here.
export OMPI_MCA_sharedfp=^lockedfile

# Lustre: stripe the run's directory before the first run, so that collective writes use many servers.
# lfs setstripe -c 8 -S 16M runs
