"""A SLURM cluster on one machine: Debian's packages, one slurmctld, and several slurmd, one for each node.

Debian builds SLURM with --enable-multiple-slurmd, which this uses. No munge, no cgroups, no accounting."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

CONFIGURATION = """
ClusterName=maniple
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/spool/%n
TmpFS={folder}/tmp/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=5
MinJobAge=3600
SchedulerParameters=sched_interval=1,batch_sched_delay=0
JobRequeue=1
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=4 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    """The first of `count` neighbouring ports that nobody listens on."""
    for first in range(17100, 30000, count):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
    raise RuntimeError("no free ports")


class Cluster:
    """`folder` takes configuration, logs and spool; the nodes are called n1, n2, ..."""

    def __init__(self, folder, nodes=2):
        self.folder = Path(folder)
        port = free_ports(nodes + 1)
        for name in ["state", *(f"{kind}/n{i + 1}" for kind in ("spool", "tmp") for i in range(nodes))]:
            (self.folder / name).mkdir(parents=True)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=socket.gethostname(), user=getpass.getuser(), folder=self.folder, port=port, nodes=nodes, first=port + 1, last=port + nodes))
        self.environment = {
            **os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"),
            # ranks of several nodes share this machine: each node is to have its own memory
            "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_oob_tcp_if_include": "lo",
            "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OPENBLAS_NUM_THREADS": "1", "PMIX_MCA_gds": "hash"}
        self.daemons = {}
        self.start("slurmctld", "-D")
        for i in range(nodes):
            self.start_node(f"n{i + 1}")
        self.wait(lambda: self.run("sinfo", "-h", "-o", "%D %t").stdout.split() == [str(nodes), "idle"], "idle nodes")

    def start(self, name, *arguments):
        output = open(self.folder / f"{name}.out", "w")
        # (called by these names: the daemons look at what they are called)
        program = shutil.which(arguments[0] if arguments[0].startswith("slurm") else name, path="/usr/sbin:/sbin")
        rest = arguments[1:] if arguments[0].startswith("slurm") else arguments
        self.daemons[name] = subprocess.Popen([program, *rest], env=self.environment, stdout=output,
                                              stderr=subprocess.STDOUT, start_new_session=True)

    def start_node(self, node):
        self.start(node, "slurmd", "-D", "-N", node)

    def run(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)

    def submit(self, *arguments, cwd):
        result = subprocess.run(["sbatch", "--parsable", *map(str, arguments)], env=self.environment, cwd=cwd,
                                capture_output=True, text=True, timeout=60)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    def job(self, number):
        """What scontrol knows of a job, by name."""
        text = self.run("scontrol", "show", "job", "-o", number).stdout
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def wait(self, condition, what, timeout=120):
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                logs = {p.name: p.read_text()[-3000:] for p in self.folder.glob("*.log")}
                raise AssertionError(f"not within {timeout} s: {what}\n{logs}")
            time.sleep(0.2)

    def wait_for_end(self, number, timeout=120):
        over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        self.wait(lambda: self.job(number).get("JobState") in over, f"the end of job {number}", timeout)
        return self.job(number)

    def start_again(self, number):
        """Now, not after the two minutes that SLURM lets a requeued job wait; but not while its old step still ends."""
        self.wait(lambda: not list(self.folder.glob(f"spool/*/stepd.slurm.pmix.{number}.*")), "the end of the old step")
        self.wait(lambda: self.run("scontrol", "update", f"JobId={number}", "StartTime=now") and
                  self.job(number)["JobState"] == "RUNNING", "the next start")

    def stop(self):
        self.run("scancel", "--full", "-u", getpass.getuser())
        time.sleep(1)
        for daemon in reversed(list(self.daemons.values())):
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
