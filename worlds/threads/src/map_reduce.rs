//! MapReduce over distributed queues.
//!
//! ```text
//!  input ── map, on every seat ── pairs ──▶ a batch for each partition ── the queue of its place
//!                                                                                │
//!                                                                                ▼
//!                             reduce ◀── merged ──┬── the partition's pairs ◀────┘
//!                                                 └── sorted runs in temporary files, when memory runs out
//! ```
//!
//! Dean, Ghemawat, "MapReduce: Simplified Data Processing on Large Clusters", OSDI 2004. Wheeler et al. (see
//! [`DistQueue`]), §6, propose distributed queues instead of a master: a key's hash selects its partition, a partition
//! has a place, and pairs travel to the queue of this place. Mapping seats also take batches of their own place, so
//! that both stages overlap.

mod partition;
mod stored;

use partition::{Partition, Sorted};
use std::collections::BTreeSet;
use std::fmt;
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
pub use stored::Stored;
use vicus_files::Scratch;
pub use vicus_files::{FileError, FileOperation};
use vicus_machine::MachineRuntime;
use vicus_machine::scope;
use vicus_memory::{DistQueue, TryPopError};
use vicus_os::{SystemDirectory, pages};
use vicus_topology::{Place, Topology};

/// So many partitions for each place, unless another number is said: each is sorted by one thread.
const FOR_EACH_PLACE: usize = 8;

/// Size in bytes at which a batch of pairs is sent.
const BATCH_BYTES: usize = 16 << 10;

/// So many results are handed on at once: all partitions have one list.
const RESULTS: usize = 256;

/// Least memory for pairs before they are written to files.
const LEAST_MEMORY: usize = 64 << 10;

/// A computation by two functions: one makes pairs of a key and a value from each element, the other one makes a result
/// of all values of a key.
///
/// ```
/// use vicus_machine::MachineRuntime;
/// use vicus_threads::map_reduce::MapReduce;
///
/// let runtime = MachineRuntime::builder().threads(2).start();
/// let lines = ["the quick brown fox", "the lazy dog", "the fox"];
/// let mut counts = MapReduce::new(&runtime).run(
///     lines,
///     |line, pairs| line.split(' ').for_each(|word| pairs.emit(word.to_owned(), 1)),
///     |_word, ones| ones.sum::<u64>(),
/// )?;
/// counts.sort();
/// assert_eq!(counts.last(), Some(&("the".to_owned(), 3)));
/// # Ok::<(), vicus_threads::map_reduce::MapReduceError>(())
/// ```
#[must_use = "it runs when `run` is called"]
pub struct MapReduce<'a> {
    runtime: &'a MachineRuntime,
    memory: Option<usize>,
    scratch: Option<Arc<Scratch>>,
    partitions: Option<usize>,
}

impl<'a> MapReduce<'a> {
    /// On the threads of this runtime.
    pub fn new(runtime: &'a MachineRuntime) -> MapReduce<'a> {
        MapReduce { runtime, memory: None, scratch: None, partitions: None }
    }

    /// Sets the memory for pairs in bytes, at least 64 KiB; pairs beyond it go to temporary files. By default a quarter
    /// of the free memory.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets the folder of temporary files. They have no names, so nothing is left there in any case. Without it, pairs
    /// beyond the memory limit are an error.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn files_in(self, folder: &Path) -> Result<Self, FileError> {
        Ok(self.scratch(Scratch::new(Arc::new(SystemDirectory::open(folder)?))))
    }

    /// Like [`MapReduce::files_in`], sharing the folder of other temporary files.
    #[doc(hidden)]
    pub fn scratch(mut self, scratch: Arc<Scratch>) -> Self {
        self.scratch = Some(scratch);
        self
    }

    /// Sets the number of partitions of the keys, at least 1; by default eight for each core group with threads.
    pub fn partitions(mut self, partitions: usize) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// Runs it. `map` is called once for each element, and emits pairs; `reduce` once for each key, with its values in
    /// any order. Results are in the order of partitions, and of keys within each. The input's iterator must not wait
    /// for tasks of the runtime: one thread at a time has it.
    ///
    /// # Errors
    /// Pairs need more memory than they may have, and no file can be written.
    ///
    /// # Panics
    /// If `map` or `reduce` does, with its panic.
    pub fn run<I: Send, K: Key, V: Stored + Send, R: Send>(
        &self,
        input: impl IntoIterator<Item = I, IntoIter: Send>,
        map: impl Fn(I, &mut Emitter<'_, K, V>) + Sync,
        reduce: impl Fn(&K, &mut Values<'_, K, V>) -> R + Sync,
    ) -> Result<Vec<(K, R)>, MapReduceError> {
        let input = Mutex::new(input.into_iter());
        let next = |_, _: &Mapper<'_>| input.lock().expect("another thread's panic is told").next();
        self.collected(&next, &map, &reduce, None)
    }

    /// Like [`MapReduce::run`], for values that can be combined in any order, two of one key into one: fewer of them
    /// are sent, kept and written.
    ///
    /// ```
    /// use vicus_machine::MachineRuntime;
    /// use vicus_threads::map_reduce::MapReduce;
    ///
    /// let runtime = MachineRuntime::builder().threads(2).start();
    /// let longest = MapReduce::new(&runtime).run_combined(0..1000u64, |n, pairs| pairs.emit(n % 7, n), u64::max)?;
    /// assert_eq!(longest.len(), 7);
    /// assert!(longest.contains(&(3, 997)));
    /// # Ok::<(), vicus_threads::map_reduce::MapReduceError>(())
    /// ```
    ///
    /// # Errors
    /// As [`MapReduce::run`].
    ///
    /// # Panics
    /// As [`MapReduce::run`].
    pub fn run_combined<I: Send, K: Key, V: Stored + Send>(
        &self,
        input: impl IntoIterator<Item = I, IntoIter: Send>,
        map: impl Fn(I, &mut Emitter<'_, K, V>) + Sync,
        combine: impl Fn(V, V) -> V + Sync,
    ) -> Result<Vec<(K, V)>, MapReduceError> {
        let input = Mutex::new(input.into_iter());
        let next = |_, _: &Mapper<'_>| input.lock().expect("another thread's panic is told").next();
        let reduce = |_: &K, values: &mut Values<'_, K, V>| values.reduce(&combine).expect("a key has a value");
        self.collected(&next, &map, &reduce, Some(&combine))
    }

    /// Like [`MapReduce::run`], from one distributed queue to another: elements are mapped near their place, if seats
    /// there have time, and results are put near their reducer. Ends when the input is closed and empty; the output
    /// stays open. Threads of the runtime wait for the input meanwhile, so it must not be filled by tasks of this
    /// runtime that have not begun.
    ///
    /// ```
    /// use vicus_machine::MachineRuntime;
    /// use vicus_threads::map_reduce::MapReduce;
    /// use vicus_memory::DistQueue;
    ///
    /// let runtime = MachineRuntime::builder().threads(2).start();
    /// let (numbers, sums) = (DistQueue::new(runtime.topology()), DistQueue::new(runtime.topology()));
    /// let node = runtime.topology().nodes[0].id;
    /// (0..100u64).for_each(|n| numbers.push(node, n).unwrap());
    /// numbers.close();
    /// let job = MapReduce::new(&runtime);
    /// job.run_queues(&numbers, |n, pairs| pairs.emit(n % 2, n), |_, values| values.sum::<u64>(), &sums)?;
    /// assert_eq!([sums.try_pop(node), sums.try_pop(node)].map(|sum| sum.unwrap().1).iter().sum::<u64>(), 4950);
    /// # Ok::<(), vicus_threads::map_reduce::MapReduceError>(())
    /// ```
    ///
    /// # Errors
    /// As [`MapReduce::run`]; or the output is closed, or has no memory left.
    ///
    /// # Panics
    /// As [`MapReduce::run`].
    pub fn run_queues<I: Send, K: Key, V: Stored + Send, R: Send>(
        &self,
        input: &DistQueue<I>,
        map: impl Fn(I, &mut Emitter<'_, K, V>) + Sync,
        reduce: impl Fn(&K, &mut Values<'_, K, V>) -> R + Sync,
        output: &DistQueue<(K, R)>,
    ) -> Result<(), MapReduceError> {
        self.run_from_queue(input, map, None, reduce, |place, key, result| output.push(place, (key, result)).is_ok())
    }

    /// Like [`MapReduce::run_queues`], with a function for the results, called with the place of their origin: several
    /// threads call it at once. It returns whether it takes more results. With `combine`, two values of a key may be
    /// made one on their way, as with [`MapReduce::run_combined`].
    ///
    /// ```
    /// use std::sync::Mutex;
    /// use vicus_machine::MachineRuntime;
    /// use vicus_threads::map_reduce::MapReduce;
    /// use vicus_memory::DistQueue;
    ///
    /// let runtime = MachineRuntime::builder().threads(2).start();
    /// let numbers = DistQueue::new(runtime.topology());
    /// (0..100u64).for_each(|n| numbers.push(runtime.topology().nodes[0].id, n).unwrap());
    /// numbers.close();
    /// let sums = Mutex::new(Vec::new());
    /// MapReduce::new(&runtime).run_from_queue(
    ///     &numbers,
    ///     |n, pairs| pairs.emit(n % 2, n),
    ///     Some(&|one, other| one + other),
    ///     |_, values| values.sum::<u64>(),
    ///     |_, odd, sum| {
    ///         sums.lock().unwrap().push((odd, sum));
    ///         true
    ///     },
    /// )?;
    /// let mut sums = sums.into_inner().unwrap();
    /// sums.sort();
    /// assert_eq!(sums, [(0, 2450), (1, 2500)]);
    /// # Ok::<(), vicus_threads::map_reduce::MapReduceError>(())
    /// ```
    ///
    /// # Errors
    /// As [`MapReduce::run`]; or the function takes no more results.
    ///
    /// # Panics
    /// As [`MapReduce::run`].
    pub fn run_from_queue<I: Send, K: Key, V: Stored + Send, R: Send>(
        &self,
        input: &DistQueue<I>,
        map: impl Fn(I, &mut Emitter<'_, K, V>) + Sync,
        combine: Option<&(dyn Fn(V, V) -> V + Sync)>,
        reduce: impl Fn(&K, &mut Values<'_, K, V>) -> R + Sync,
        put: impl Fn(Place, K, R) -> bool + Sync,
    ) -> Result<(), MapReduceError> {
        let next = |place: Place, mapper: &Mapper<'_>| match input.try_pop(place) {
            Ok(element) => Some(element),
            Err(TryPopError::Closed) => None,
            // The next push wakes this thread, and so does the end of the job.
            Err(TryPopError::Empty) => crate::spawn::block_on(mapper.unless_over(input.pop(place)))?.ok(),
        };
        let put = |_, place, results: Vec<(K, R)>| {
            let are_taken = results.into_iter().all(|(key, result)| put(place, key, result));
            if are_taken { Ok(()) } else { Err(MapReduceError::Output) }
        };
        self.run_into(&next, &map, &reduce, combine, &put)
    }

    fn collected<I: Send, K: Key, V: Stored + Send, R: Send>(
        &self,
        next: &Next<'_, I>,
        map: &(dyn Fn(I, &mut Emitter<'_, K, V>) + Sync),
        reduce: &(dyn Fn(&K, &mut Values<'_, K, V>) -> R + Sync),
        combine: Option<&Combine<'_, V>>,
    ) -> Result<Vec<(K, R)>, MapReduceError> {
        let results: Mutex<Vec<Vec<(K, R)>>> = Mutex::default();
        let put = |partition: usize, _, some| {
            let mut results = results.lock().expect("nothing panics under this lock");
            if results.len() <= partition {
                results.resize_with(partition + 1, Vec::new);
            }
            results[partition].extend(some);
            Ok(())
        };
        self.run_into(next, map, reduce, combine, &put)?;
        Ok(results.into_inner().expect("nothing panics under this lock").into_iter().flatten().collect())
    }

    fn run_into<I: Send, K: Key, V: Stored + Send, R: Send>(
        &self,
        next: &Next<'_, I>,
        map: &(dyn Fn(I, &mut Emitter<'_, K, V>) + Sync),
        reduce: &(dyn Fn(&K, &mut Values<'_, K, V>) -> R + Sync),
        combine: Option<&Combine<'_, V>>,
        put: &Put<'_, K, R>,
    ) -> Result<(), MapReduceError> {
        let seats = self.runtime.plan().seats.iter().filter(|seat| !seat.spare);
        let pus = &self.runtime.topology().pus;
        let seats: Vec<Place> = seats.map(|seat| Place::Group(pus[seat.pu.index()].group)).collect();
        let job = Job::new(self, &seats, combine);
        self.runtime.run(|| {
            scope(|scope| {
                for (number, &place) in seats.iter().enumerate() {
                    let mapper = Mapper { over: &job.over, number };
                    let job = &job;
                    scope.spawn_at(place, move |_| job.map(place, &mapper, next, map));
                }
            });
            // Batches sent by the last mappers.
            while job.take(job.places[0]) {}
            scope(|scope| {
                for (number, partition) in job.partitions.iter().enumerate() {
                    let (job, place) = (&job, job.place_of(number));
                    scope.spawn_at(place, move |_| {
                        job.reduce(partition, reduce, &|results| put(number, place, results))
                    });
                }
            });
        });
        job.error.into_inner().expect("nothing panics under this lock").map_or(Ok(()), Err)
    }
}

impl fmt::Debug for MapReduce<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MapReduce { runtime: _, memory, scratch, partitions } = self;
        let mut shown = f.debug_struct("MapReduce");
        shown.field("memory", memory).field("scratch", scratch).field("partitions", partitions).finish_non_exhaustive()
    }
}

/// Why there is no result.
#[derive(Debug)]
pub enum MapReduceError {
    /// The pairs need more bytes than they may take, and there is nowhere to write them.
    Memory {
        /// How many they may take.
        most: usize,
    },
    /// A temporary file could not be written or read.
    File(FileError),
    /// The queue for the results took one no more: it is closed, or has no memory left.
    Output,
}

impl fmt::Display for MapReduceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapReduceError::Memory { most } => write!(
                f,
                "the pairs need more than {most} bytes: allow more by `memory`, or say by `scratch` where they may be \
                    written"
            ),
            MapReduceError::File(error) => error.fmt(f),
            MapReduceError::Output => {
                f.write_str("the queue for the results took one no more: it is closed, or has no memory left")
            }
        }
    }
}

impl std::error::Error for MapReduceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            MapReduceError::File(error) => Some(error),
            MapReduceError::Memory { .. } | MapReduceError::Output => None,
        }
    }
}

impl From<FileError> for MapReduceError {
    fn from(error: FileError) -> MapReduceError {
        MapReduceError::File(error)
    }
}

/// A key: the hash selects its partition, the order groups its values there.
pub trait Key: Hash + Ord + Stored + Send {}

impl<K: Hash + Ord + Stored + Send> Key for K {}

/// Makes one value of two.
type Combine<'a, V> = dyn Fn(V, V) -> V + Sync + 'a;

/// Takes some results of a partition, at its place.
type Put<'a, K, R> = dyn Fn(usize, Place, Vec<(K, R)>) -> Result<(), MapReduceError> + Sync + 'a;

/// Pairs on their way to a partition.
struct Batch<K, V> {
    partition: usize,
    pairs: Vec<(K, V)>,
    bytes: usize,
}

impl<K, V> Batch<K, V> {
    fn new(partition: usize) -> Batch<K, V> {
        Batch { partition, pairs: Vec::new(), bytes: 0 }
    }
}

struct Job<'a, K, V> {
    queue: DistQueue<Batch<K, V>>,
    /// The places with seats.
    places: Vec<Place>,
    partitions: Vec<Mutex<Partition<K, V>>>,
    /// The memory of pairs in batches and partitions.
    bytes: AtomicUsize,
    most: usize,
    scratch: Option<Arc<Scratch>>,
    combine: Option<&'a Combine<'a, V>>,
    over: Over,
    error: Mutex<Option<MapReduceError>>,
}

impl<'a, K: Key, V: Stored + Send> Job<'a, K, V> {
    fn new(settings: &MapReduce<'_>, seats: &[Place], combine: Option<&'a Combine<'a, V>>) -> Job<'a, K, V> {
        let topology = settings.runtime.topology();
        let places: BTreeSet<Place> = seats.iter().copied().collect();
        let places: Vec<Place> = places.into_iter().collect();
        let partitions = settings.partitions.unwrap_or(places.len() * FOR_EACH_PLACE).max(1);
        let most = settings.memory.unwrap_or_else(|| free_bytes(topology) / 4).max(LEAST_MEMORY);
        Job {
            queue: DistQueue::new(topology),
            places,
            partitions: (0..partitions).map(|_| Mutex::new(Partition::default())).collect(),
            bytes: AtomicUsize::new(0),
            most,
            scratch: settings.scratch.clone(),
            combine,
            over: Over::new(seats.len()),
            error: Mutex::new(None),
        }
    }

    fn place_of(&self, partition: usize) -> Place {
        self.places[partition % self.places.len()]
    }

    fn lock(&self, partition: usize) -> MutexGuard<'_, Partition<K, V>> {
        self.partitions[partition].lock().expect("another thread's panic ends the job")
    }

    /// The first error is the job's; nothing is begun after it.
    fn fail(&self, error: MapReduceError) {
        self.error.lock().expect("nothing panics under this lock").get_or_insert(error);
        self.over.end();
    }

    fn map<I>(&self, place: Place, mapper: &Mapper<'_>, next: &Next<'_, I>, map: &dyn Fn(I, &mut Emitter<'_, K, V>)) {
        let _ends = Ends(&self.over);
        let sender = &|batch| self.send(batch);
        let batches = (0..self.partitions.len()).map(Batch::new).collect();
        let mut emitter = Emitter { batches, combine: self.combine, send: sender };
        while !self.over.is_over()
            && let Some(element) = next(place, mapper)
        {
            map(element, &mut emitter);
            // Those of this place first, then others'.
            while self.take(place) {}
        }
        emitter.send_all();
        while self.take(place) {}
    }

    fn send(&self, batch: Batch<K, V>) {
        self.bytes.fetch_add(batch.bytes, Ordering::Relaxed);
        if let Err(refused) = self.queue.push(self.place_of(batch.partition), batch) {
            self.add(refused.into_element());
        }
        while self.bytes.load(Ordering::Relaxed) > self.most && !self.over.is_over() {
            if !self.take(self.places[0]) && !self.spill_largest() {
                break;
            }
        }
    }

    /// Takes a batch out of the queue. `false` if there is none.
    fn take(&self, place: Place) -> bool {
        let Ok(batch) = self.queue.try_pop(place) else { return false };
        self.add(batch);
        true
    }

    fn add(&self, batch: Batch<K, V>) {
        self.lock(batch.partition).add(batch);
        if self.bytes.load(Ordering::Relaxed) > self.most {
            self.spill_largest();
        }
    }

    /// Writes the pairs of the largest partition to a file. `false` if all are empty.
    fn spill_largest(&self) -> bool {
        let sizes =
            self.partitions.iter().map(|partition| partition.try_lock().map_or(0, |partition| partition.bytes()));
        let Some((largest, bytes)) = sizes.enumerate().max_by_key(|(_, bytes)| *bytes) else { return false };
        if bytes == 0 {
            return false;
        }
        let Some(scratch) = &self.scratch else {
            self.fail(MapReduceError::Memory { most: self.most });
            return false;
        };
        let mut partition = self.lock(largest);
        match partition.spill(scratch, self.combine) {
            Ok(bytes) => {
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                true
            }
            Err(error) => {
                self.fail(error.into());
                false
            }
        }
    }

    fn reduce<R>(
        &self,
        partition: &Mutex<Partition<K, V>>,
        reduce: &dyn Fn(&K, &mut Values<'_, K, V>) -> R,
        put: &dyn Fn(Vec<(K, R)>) -> Result<(), MapReduceError>,
    ) {
        let _ends = Ends(&self.over);
        let all = std::mem::take(&mut *partition.lock().expect("another thread's panic ends the job"));
        if let Err(error) = self.reduce_all(all, reduce, put) {
            self.fail(error);
        }
    }

    fn reduce_all<R>(
        &self,
        partition: Partition<K, V>,
        reduce: &dyn Fn(&K, &mut Values<'_, K, V>) -> R,
        put: &dyn Fn(Vec<(K, R)>) -> Result<(), MapReduceError>,
    ) -> Result<(), MapReduceError> {
        let mut results = Vec::new();
        let mut sorted = partition.sorted(self.scratch.as_ref(), self.combine)?;
        while !self.over.is_over() {
            let Some((key, first)) = sorted.next()? else { break };
            let mut values = Values { key: &key, first: Some(first), sorted: &mut sorted, error: None };
            let result = reduce(&key, &mut values);
            // The values left by `reduce`.
            values.by_ref().for_each(drop);
            if let Some(error) = values.error {
                return Err(error.into());
            }
            results.push((key, result));
            if results.len() == RESULTS {
                put(std::mem::take(&mut results))?;
            }
        }
        put(results)
    }
}

/// Gives the next element at a place; `None` if there is none any more.
type Next<'a, I> = dyn Fn(Place, &Mapper<'_>) -> Option<I> + Sync + 'a;

/// Whether a job is over before its end, and the tasks to tell.
struct Over {
    is_over: AtomicBool,
    /// By number of the mapper.
    waiting: Vec<Mutex<Option<Waker>>>,
}

impl Over {
    fn new(mappers: usize) -> Over {
        Over { is_over: AtomicBool::new(false), waiting: (0..mappers).map(|_| Mutex::default()).collect() }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        for waiting in &self.waiting {
            // A waker put there after this is put before its mapper looks again.
            let waker = waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// A mapper.
struct Mapper<'a> {
    over: &'a Over,
    number: usize,
}

impl Mapper<'_> {
    /// A future's output; `None` if the job is over before.
    async fn unless_over<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let mut waiting = self.over.waiting[self.number].lock().unwrap_or_else(PoisonError::into_inner);
            *waiting = Some(context.waker().clone());
            drop(waiting);
            if self.over.is_over() { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }
}

/// If a function of the user's panics, no other seat begins anything more.
struct Ends<'a>(&'a Over);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

/// How many bytes are free on the nodes of a machine; a gigabyte if the system does not say.
fn free_bytes(topology: &Topology) -> usize {
    let free = topology.nodes.iter().filter_map(|node| pages::free_bytes(node.os_index));
    free.reduce(|sum, bytes| sum + bytes).map_or(1 << 30, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Takes the pairs made of elements.
pub struct Emitter<'a, K, V> {
    batches: Vec<Batch<K, V>>,
    combine: Option<&'a Combine<'a, V>>,
    send: &'a dyn Fn(Batch<K, V>),
}

impl<K: Key, V: Stored> Emitter<'_, K, V> {
    /// A pair: this value is one of this key's.
    pub fn emit(&mut self, key: K, value: V) {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let partition = ((u128::from(hasher.finish()) * self.batches.len() as u128) >> 64) as usize;
        let batch = &mut self.batches[partition];
        batch.bytes += bytes_of(&key, &value);
        batch.pairs.push((key, value));
        if batch.bytes >= BATCH_BYTES {
            self.flush(partition);
        }
    }

    fn flush(&mut self, partition: usize) {
        let batch = &mut self.batches[partition];
        if let Some(combine) = self.combine {
            let pairs = std::mem::take(&mut batch.pairs);
            batch.pairs = partition::combined(pairs, combine);
            batch.bytes = batch.pairs.iter().map(|(key, value)| bytes_of(key, value)).sum();
            if batch.bytes < BATCH_BYTES / 2 {
                // It has room again.
                return;
            }
        }
        (self.send)(std::mem::replace(batch, Batch::new(partition)));
    }

    fn send_all(self) {
        let Emitter { batches, combine: _, send } = self;
        batches.into_iter().filter(|batch| !batch.pairs.is_empty()).for_each(send);
    }
}

impl<K, V> fmt::Debug for Emitter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emitter").field("partitions", &self.batches.len()).finish_non_exhaustive()
    }
}

/// A pair's bytes in memory.
fn bytes_of<K: Stored, V: Stored>(key: &K, value: &V) -> usize {
    size_of::<(K, V)>() + key.heap_bytes() + value.heap_bytes()
}

/// The values of a key, in any order.
pub struct Values<'a, K, V> {
    key: &'a K,
    first: Option<V>,
    sorted: &'a mut Sorted<K, V>,
    /// Why there are no more.
    error: Option<FileError>,
}

impl<K: Key, V: Stored> Iterator for Values<'_, K, V> {
    type Item = V;

    fn next(&mut self) -> Option<V> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.error.is_some() {
            return None;
        }
        match self.sorted.next_of(self.key) {
            Ok(value) => value,
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }
}

impl<K, V> fmt::Debug for Values<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").finish_non_exhaustive()
    }
}

/// A run that reads back different: only an implementation of [`Stored`] can be wrong, since checksums are compared.
fn senseless() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an implementation of `Stored` does not load what it has stored")
}
