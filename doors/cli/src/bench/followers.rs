//! A store and its follower, each behind a server of its own on this machine: how quickly changes follow, what waiting
//! for a follower costs, and how long a promotion takes.

use super::measure::Outcome;
use super::scratch::Scratch;
use crate::engine;
use anyhow::Context;
use oxrdf::{GraphNameRef, Literal, NamedNodeRef, QuadRef};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vicus::Runtime;
use vicus_server::{AccessRules, Server, ServerData, ServerOptions, ServerStop};
use vicus_service::data::{Batch, Store};
use vicus_service::{FollowOptions, Following, StoreServer, create_store, next_epoch};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many threads change the store, each one triple after the other.
    #[arg(long, default_value_t = 32, value_parser = super::measure::count)]
    writers: usize,
    /// How long each measurement takes, in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// The changes a second while the lag is measured.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
}

const TOKEN: &str = "bench";

/// A store behind a server.
struct Served {
    store: Arc<Store>,
    url: String,
    stop: ServerStop,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Served {
    fn start(store: &Arc<Store>, following: Option<Arc<Following>>) -> anyhow::Result<Served> {
        let service = engine::serve(Runtime::builder(), Some(1))?;
        let access = AccessRules { write: vec![TOKEN.to_owned()], ..AccessRules::default() };
        let options = ServerOptions { access, following, ..ServerOptions::default() };
        let merger = service.keep(store).context("a thread")?;
        let data = ServerData::Store { store: Arc::clone(store), merger: Some(merger) };
        let server = Server::bind("127.0.0.1:0", service, data, options)?;
        let url = format!("http://{}", server.address().context("its address")?);
        let stop = server.stopper();
        let thread = std::thread::Builder::new().name("server".to_owned()).spawn(move || server.run())?;
        Ok(Served { store: Arc::clone(store), url, stop, thread })
    }

    fn copy(&self) -> StoreServer {
        StoreServer::new(&self.url, Some(TOKEN), None)
    }

    fn end(self) -> anyhow::Result<()> {
        self.stop.stop();
        drop(self.store);
        Ok(self.thread.join().expect("a server does not panic")?)
    }
}

/// Inserts a triple of its own, and returns the number of its record.
fn change(store: &Store, value: u64) -> anyhow::Result<u64> {
    let mut batch = Batch::new();
    let iri = NamedNodeRef::new_unchecked("http://example.org/p");
    let literal = Literal::new_simple_literal(value.to_string());
    batch.insert(QuadRef::new(iri, iri, &literal, GraphNameRef::DefaultGraph));
    batch.commit(store)?.context("it has a change")
}

/// Changes by several threads for a while, at a rate or as quickly as they can. Returns the number and the time of each
/// acknowledgement, ascending.
fn changes(store: &Store, args: &Args, rate: Option<u64>) -> anyhow::Result<Vec<(u64, Instant)>> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (all, is_over, begun) = (Mutex::new(Vec::new()), AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    let work = || -> anyhow::Result<()> {
        let mut own = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            if let Some(rate) = rate {
                let at = Duration::from_secs_f64(begun.fetch_add(1, Ordering::Relaxed) as f64 / rate as f64);
                std::thread::sleep(at.saturating_sub(began.elapsed()));
            }
            let number = change(store, NEXT.fetch_add(1, Ordering::Relaxed))?;
            own.push((number, Instant::now()));
        }
        all.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.writers).map(|_| scope.spawn(work)).collect();
        std::thread::sleep(Duration::from_secs(args.seconds));
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_unstable();
    Ok(all)
}

fn wait_for(store: &Store, number: u64) {
    while store.numbered_snapshot().1 < number {
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn rate(changes: &[(u64, Instant)], args: &Args) -> f64 {
    changes.len() as f64 / args.seconds as f64
}

/// The value below which this part of the values is.
fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    let scratch = Scratch::new()?;
    let store = Arc::new(create_store(&scratch.path("writer"))?);
    let writer = Served::start(&store, None)?;
    let alone = rate(&changes(&store, args, None)?, args);
    say_line!("{:<44} {alone:>10.0}", "changes a second, without a follower");

    let servers = vec![writer.copy()];
    let tell = Arc::new(|message: &str| say_line!("{message}"));
    let options = FollowOptions { servers, tell };
    let began = Instant::now();
    let copied = Arc::new(options.open(&scratch.path("follower"), &mut |_, _| {})?);
    let following = Arc::new(options.begin(&copied)?);
    wait_for(&copied, store.standing().last);
    let records = copied.standing().last as f64;
    say_line!("{:<44} {:>10.0}", "records a second, when it begins to follow", records / began.elapsed().as_secs_f64());
    let follower = Served::start(&copied, Some(following))?;

    let began = Instant::now();
    let followed = changes(&store, args, None)?;
    let wrote = began.elapsed();
    wait_for(&copied, followed.last().context("there were changes")?.0);
    let part = wrote.as_secs_f64() / began.elapsed().as_secs_f64();
    let beside = rate(&followed, args);
    say_line!("{:<44} {beside:>10.0}", "changes a second, beside a follower");
    say_line!("{:<44} {part:>10.3}", "the follower's rate, as a part of the writer's");

    let seen = Arc::new(Mutex::new(Vec::new()));
    let watch = {
        let (seen, copied) = (Arc::clone(&seen), Arc::downgrade(&copied));
        follower.store.watch(Arc::new(move || {
            if let Some(copied) = copied.upgrade() {
                let now = (copied.numbered_snapshot().1, Instant::now());
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(now);
            }
        }))
    };
    let acknowledged = changes(&store, args, Some(args.rate))?;
    wait_for(&copied, acknowledged.last().context("there were changes")?.0);
    drop(watch);
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    let mut lags: Vec<f64> = acknowledged
        .iter()
        .map(|(number, at)| {
            let place = seen.partition_point(|(sequence, _)| sequence < number).min(seen.len() - 1);
            seen[place].1.saturating_duration_since(*at).as_secs_f64() * 1e3
        })
        .collect();
    let (half, most) = (quantile(&mut lags, 0.5), quantile(&mut lags, 0.99));
    let paced = rate(&acknowledged, args);
    say_line!("{:<44} {half:>10.2} {most:>10.2}", format!("lag in ms at {paced:.0} changes a second: p50, p99"));

    let mut factors = Vec::new();
    for one in [1, args.writers] {
        let these = Args { writers: one, ..*args };
        let mut rates = [0.0; 2];
        for (needed, sum) in [0, 1, 0, 1].into_iter().zip([0, 1, 0, 1]) {
            store.need_followers(needed, 10_000_000_000);
            rates[sum] += rate(&changes(&store, &these, None)?, &these) / 2.0;
        }
        store.need_followers(0, 0);
        let [without, with] = rates.map(|rate| one as f64 * 1e3 / rate);
        let factor = with / without;
        let what = format!("ms of a change, {one} writers: K = 0, K = 1, factor");
        say_line!("{what:<44} {without:>10.3} {with:>10.3} {factor:>6.2}");
        factors.push(factor);
    }

    writer.end()?;
    let began = Instant::now();
    let copy = follower.copy();
    let epoch = next_epoch(copy.standing()?.known())?;
    copy.promise(epoch)?;
    copy.promote(epoch)?;
    change(&copied, u64::MAX)?;
    let promotion = began.elapsed().as_secs_f64() * 1e3;
    say_line!("{:<44} {promotion:>10.1}", "ms from a promotion's begin to the first change");
    follower.end()?;
    Ok(vec![
        Outcome::new("followers, rate", "1", 1.0 / part, "aim", 1.0 / 0.9),
        Outcome::new("followers, lag p99", "ms", most, "aim", 100.0),
        Outcome::new("followers, K = 1, one writer", "1", factors[0], "aim", 1.5),
        Outcome::new("followers, K = 1, all writers", "1", factors[1], "aim", 1.5),
        Outcome::new("followers, promotion", "ms", promotion, "aim", 2000.0),
    ])
}
