//! A crossing between two processes, over loopback: the time of an envelope there and back, and the rate of a stream,
//! beside a plain connection that carries as many bytes.

use super::measure::{self, Outcome};
use anyhow::anyhow;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;
use vicus::{BoxError, BoxModel, Envelope, Operator, Resume, Runtime, Schema, Turn, Type};
use vicus_network::{BoxSpec, Kinds, MachineCounts, NetworkText, Ports};
use vicus_nodes::{Lead, LeadOptions, NodeOptions, NodeServer};
use vicus_testing::median;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The bytes of an envelope that goes there and back.
    #[arg(long, default_value_t = 64 << 10)]
    trip_bytes: usize,
    /// How many envelopes go there and back, one after the other.
    #[arg(long, default_value_t = 2000, value_parser = measure::count)]
    trips: usize,
    /// The bytes of an envelope of the stream.
    #[arg(long, default_value_t = 1 << 20)]
    stream_bytes: usize,
    /// How many envelopes the stream has.
    #[arg(long, default_value_t = 2000, value_parser = measure::count)]
    stream: usize,
    /// How often each side is measured, alternating; the medians count.
    #[arg(long, default_value_t = 5, value_parser = measure::count)]
    repeats: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    let mut results = Vec::new();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..args.repeats {
        ours.push(trips(args.trip_bytes, args.trips, 1)?);
        theirs.push(plain_trips(args.trip_bytes, args.trips)?);
    }
    let (own, plain) = (median(&ours), median(&theirs));
    say_line!("an envelope of {} bytes there and back: {own:.1} µs; plain bytes {plain:.1} µs", args.trip_bytes);
    results.push(Outcome::new(format!("{} bytes there and back", args.trip_bytes), "µs", own, "plain bytes", plain));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..args.repeats {
        ours.push(trips(args.stream_bytes, args.stream, args.stream)?);
        theirs.push(plain_stream(args.stream_bytes, args.stream)?);
    }
    // From microseconds for an envelope to its bytes a second.
    let rate = |us: f64| args.stream_bytes as f64 / us / 1e3;
    let (own, plain) = (median(&ours), median(&theirs));
    say_line!(
        "a stream of envelopes of {} bytes: {:.2} GB/s; plain bytes {:.2} GB/s",
        args.stream_bytes,
        rate(own),
        rate(plain)
    );
    let name = format!("{} bytes of a stream", args.stream_bytes);
    results.push(Outcome::new(name, "µs", own, "plain bytes", plain));
    Ok(results)
}

/// Envelopes on their way, for the box that sends and the one that takes them.
#[derive(Default)]
struct Trips {
    began: Option<Instant>,
    arrived: usize,
    /// When the last one arrived.
    ended: Option<Instant>,
    paused: Option<Resume>,
}

/// Sends envelopes, at most `ahead` more than have arrived.
struct Ping {
    trips: Arc<Mutex<Trips>>,
    rows: Envelope,
    sent: usize,
    all: usize,
    ahead: usize,
}

impl Operator for Ping {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        turn.take(0);
        while self.sent < self.all {
            if !turn.ask_room(0) {
                turn.run_again();
                return Ok(());
            }
            let mut trips = self.trips.lock().expect("nothing panics under this lock");
            trips.began.get_or_insert_with(Instant::now);
            if self.sent - trips.arrived >= self.ahead {
                trips.paused = turn.pause();
                return Ok(());
            }
            drop(trips);
            turn.send(0, self.rows.clone());
            self.sent += 1;
        }
        turn.send_pill(0);
        Ok(())
    }
}

/// The microseconds of an envelope over a node that passes it on: here and back if `ahead` is 1.
fn trips(bytes: usize, all: usize, ahead: usize) -> anyhow::Result<f64> {
    let schema = Schema::new([("n", Type::U64)]);
    let rows = Envelope::new([vec![7u64; bytes / 8].into()]);
    let trips: Arc<Mutex<Trips>> = Arc::default();
    let mut kinds = Kinds::library();
    let (model, given) = (schema.clone(), Arc::clone(&trips));
    let ping = BoxSpec::new("ping", "Sends envelopes.").ports(Ports::Exactly(0), Ports::Exactly(1));
    kinds.add(ping.builds(move |building| {
        let (rows, given) = (rows.clone(), Arc::clone(&given));
        let act = move || Ping { trips: Arc::clone(&given), rows: rows.clone(), sent: 0, all, ahead };
        Ok(vec![(building.source(BoxModel::new("ping", act).output(&model)).output(0), model.clone())])
    }));
    let pong = BoxSpec::new("pong", "Takes them.").ports(Ports::Exactly(1), Ports::Exactly(0));
    let counted = Arc::clone(&trips);
    kinds.add(pong.builds(move |building| {
        let counted = Arc::clone(&counted);
        building.sink("pong", move |rows| {
            if rows.is_pill() {
                return Ok(());
            }
            let mut trips = counted.lock().expect("nothing panics under this lock");
            trips.arrived += 1;
            trips.ended = Some(Instant::now());
            let paused = trips.paused.take();
            drop(trips);
            drop(paused);
            Ok(())
        });
        Ok(Vec::new())
    }));
    let runtime = || Runtime::builder().threads(1).start();
    let options = NodeOptions { token: None, certificate: None, memory: 1 << 30, overflows: None, nodes: 1 };
    let node = NodeServer::listen("127.0.0.1:0", runtime(), kinds.clone(), options)?;
    let address = node.address()?.to_string();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let served = scope.spawn(|| node.serve(|| is_over.load(Ordering::Relaxed)));
        let timed = || -> anyhow::Result<f64> {
            // The stream goes one way: its sender is on the node.
            let text = match ahead {
                1 => "box a = ping; box far = map(select: \"*\") on node 1; box b = pong; a -> far -> b;",
                _ => "box a = ping on node 1; box b = pong; a -> b;",
            };
            let text: NetworkText = text.parse()?;
            let own = MachineCounts { threads: 1, nodes: 1 };
            let lead = Lead::connect(std::slice::from_ref(&address), &[], LeadOptions::default())?;
            let mut attempt = lead.begin(&text, "trips", &[], own, 1 << 30)?;
            let network = attempt.build(&text, "trips", &kinds, &[])?.ok_or_else(|| anyhow!("no boxes are here"))?;
            let runtime = runtime();
            let request = runtime.submit(&network.model);
            attempt.wait(Some(&request), || true)?;
            let trips = trips.lock().expect("nothing panics under this lock");
            let ends = trips.began.zip(trips.ended).ok_or_else(|| anyhow!("nothing was sent"))?;
            Ok((ends.1 - ends.0).as_secs_f64() * 1e6 / all as f64)
        };
        let timed = timed();
        is_over.store(true, Ordering::Relaxed);
        served.join().expect("a node does not panic")?;
        timed
    })
}

/// A connection over loopback: the near and the far end.
fn plain() -> anyhow::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}

/// The microseconds of as many bytes there and back.
fn plain_trips(bytes: usize, all: usize) -> anyhow::Result<f64> {
    let (mut near, mut far) = plain()?;
    let echo = thread::spawn(move || -> std::io::Result<()> {
        let mut buffer = vec![0; bytes];
        for _ in 0..all {
            far.read_exact(&mut buffer)?;
            far.write_all(&buffer)?;
        }
        Ok(())
    });
    let mut buffer = vec![7; bytes];
    let began = Instant::now();
    for _ in 0..all {
        near.write_all(&buffer)?;
        near.read_exact(&mut buffer)?;
    }
    let took = began.elapsed();
    echo.join().expect("it does not panic")?;
    Ok(took.as_secs_f64() * 1e6 / all as f64)
}

/// The microseconds of as many bytes one way.
fn plain_stream(bytes: usize, all: usize) -> anyhow::Result<f64> {
    let (mut near, mut far) = plain()?;
    let sends = thread::spawn(move || -> std::io::Result<()> {
        let buffer = vec![7; bytes];
        (0..all).try_for_each(|_| far.write_all(&buffer))
    });
    let mut buffer = vec![0; bytes];
    let began = Instant::now();
    for _ in 0..all {
        near.read_exact(&mut buffer)?;
    }
    let took = began.elapsed();
    sends.join().expect("it does not panic")?;
    Ok(took.as_secs_f64() * 1e6 / all as f64)
}
