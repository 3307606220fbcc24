//! A side's process: started on its CPUs, watched, and ended with the bench.

use anyhow::Context;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The CPUs of the sides, and those of the load generator.
pub(crate) struct Cpus {
    pub(crate) sides: Vec<usize>,
    pub(crate) clients: Vec<usize>,
}

impl Cpus {
    /// Where there are four or more, clients have the last for themselves; otherwise all share all.
    pub(crate) fn divided(all: &[usize]) -> Cpus {
        match all {
            [sides @ .., last] if sides.len() >= 3 => Cpus { sides: sides.to_vec(), clients: vec![*last] },
            all => Cpus { sides: all.to_vec(), clients: all.to_vec() },
        }
    }
}

/// Restricts this thread and what it starts to these CPUs.
fn pin(cpus: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    Ok(sched_setaffinity(None, &set)?)
}

pub(crate) struct Process(Child);

impl Process {
    /// Starts a server on the sides' CPUs. It is ended when it is dropped, or when this process ends in whatever way.
    pub(crate) fn start(command: &mut Command, cpus: &Cpus) -> anyhow::Result<Process> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        #[expect(unsafe_code, reason = "only a child can say that it ends with its parent")]
        // SAFETY: between fork and exec, the closure makes one system call and allocates nothing.
        unsafe {
            command.pre_exec(|| {
                Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
            });
        }
        pin(&cpus.sides)?;
        let child = command.spawn();
        pin(&cpus.clients)?;
        Ok(Process(child.with_context(|| format!("{name} can't be started"))?))
    }

    /// Runs a command to its end on the sides' CPUs.
    pub(crate) fn run(command: &mut Command, cpus: &Cpus) -> anyhow::Result<()> {
        let name = command.get_program().to_string_lossy().into_owned();
        pin(&cpus.sides)?;
        let output = command.stdin(Stdio::null()).output();
        pin(&cpus.clients)?;
        let output = output.with_context(|| format!("{name} can't be started"))?;
        let said = [output.stdout, output.stderr].concat();
        anyhow::ensure!(output.status.success(), "{name} failed: {}", String::from_utf8_lossy(&said));
        Ok(())
    }

    /// Why it is no longer there.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.0.try_wait().ok().flatten().map(|status| status.to_string())
    }

    fn read(&self, file: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{file}", self.0.id());
        std::fs::read_to_string(&path).with_context(|| format!("{path}: can't be read"))
    }

    /// The resident memory in bytes: now, and the most since [`Process::forget_most`].
    pub(crate) fn memory(&self) -> anyhow::Result<(u64, u64)> {
        let status = self.read("status")?;
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib: Option<u64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            kib.map(|kib| kib << 10).with_context(|| format!("the process' status has no {name}"))
        };
        Ok((of("VmRSS:")?, of("VmHWM:")?))
    }

    /// From now on, the most resident memory is that from now on.
    pub(crate) fn forget_most(&self) -> anyhow::Result<()> {
        let path = format!("/proc/{}/clear_refs", self.0.id());
        std::fs::write(&path, "5").with_context(|| format!("{path}: can't be written"))
    }

    /// The processors' time that it has taken so far.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        let stat = self.read("stat")?;
        // The name before may have blanks in it.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, and no data is wanted that it has not written.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
