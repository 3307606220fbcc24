//! A dictionary for concurrent threads: parts by hash, each with a lock.
//!
//! An iterator goes through the entries from its beginning; deleted ones stay until it is gone.

use crate::exports;
use crate::hash;
use crate::object::Object;
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

type Equals = unsafe extern "C-unwind" fn(*mut libc::c_void, *mut libc::c_void) -> i32;
type Hash = unsafe extern "C-unwind" fn(*mut libc::c_void) -> i32;
type Cleanup = unsafe extern "C-unwind" fn(*mut libc::c_void, *mut libc::c_void);

/// The header's structure.
#[repr(C)]
pub(crate) struct Entry {
    value: *mut libc::c_void,
    key: *mut libc::c_void,
    hash: u64,
    next: *mut Entry,
}

pub(crate) struct Dictionary {
    equals: Equals,
    hash: Hash,
    cleanup: Option<Cleanup>,
    parts: Box<[Mutex<Part>]>,
    iterators: AtomicUsize,
    /// Deleted while there were iterators.
    deleted: Mutex<Entries>,
}

#[derive(Default)]
struct Part(HashMap<u64, Vec<*mut Entry>>);

#[derive(Default)]
struct Entries(Vec<*mut Entry>);

// SAFETY: rule "Interface": any thread may use the program's keys and values. The entries are used under a lock, or by
// those to whom the dictionary gives them.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Send for Entries {}

pub(crate) struct DictionaryIterator {
    dictionary: Object<Dictionary>,
    /// Found when it is first asked for one.
    entries: Option<Vec<*mut Entry>>,
    /// How often it was asked.
    at: usize,
}

const PARTS: usize = 64;

impl Dictionary {
    /// Whether an entry has this key.
    fn has_key(&self, entry: *mut Entry, key: *mut libc::c_void) -> bool {
        // SAFETY: the entry is in a part whose lock is held, so it is not freed. Rule "Interface": the program's
        // function compares two keys.
        unsafe { (self.equals)((*entry).key, key) != 0 }
    }

    fn hashed(&self, key: *mut libc::c_void) -> u64 {
        // SAFETY: rule "Interface": the program's function, with a key.
        hash::mix(u64::from(unsafe { (self.hash)(key) } as u32))
    }

    fn part(&self, hash: u64) -> MutexGuard<'_, Part> {
        self.parts[hash as usize % PARTS].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn put(&self, key: *mut libc::c_void, value: *mut libc::c_void, replaces: bool) -> *mut libc::c_void {
        let hash = self.hashed(key);
        let mut part = self.part(hash);
        let entries = part.0.entry(hash).or_default();
        let found = entries.iter().find(|&&entry| self.has_key(entry, key));
        if let Some(&entry) = found {
            if replaces {
                // SAFETY: the lock of its part is held, so it is not freed, and no other thread changes it.
                unsafe { (*entry).value = value };
            }
            // SAFETY: as above.
            return unsafe { (*entry).value };
        }
        entries.push(Box::into_raw(Box::new(Entry { value, key, hash, next: ptr::null_mut() })));
        value
    }

    fn get(&self, key: *mut libc::c_void) -> *mut libc::c_void {
        let hash = self.hashed(key);
        let part = self.part(hash);
        let found = part.0.get(&hash).into_iter().flatten();
        let mut found = found.filter(|&&entry| self.has_key(entry, key));
        // SAFETY: the lock of its part is held, so it is not freed, and no other thread changes it.
        found.next().map_or(ptr::null_mut(), |&entry| unsafe { (*entry).value })
    }

    fn delete(&self, key: *mut libc::c_void) -> *mut libc::c_void {
        let hash = self.hashed(key);
        let mut part = self.part(hash);
        let Some(entries) = part.0.get_mut(&hash) else { return ptr::null_mut() };
        let found = entries.iter().position(|&entry| self.has_key(entry, key));
        let Some(entry) = found.map(|found| entries.swap_remove(found)) else { return ptr::null_mut() };
        if entries.is_empty() {
            part.0.remove(&hash);
        }
        drop(part);
        // SAFETY: the entry is in no part any more, and this thread has taken it out.
        let (value, key) = unsafe { ((*entry).value, (*entry).key) };
        if self.iterators.load(Ordering::Acquire) > 0 {
            self.deleted().0.push(entry);
        } else {
            // SAFETY: `put` has made it by `Box::into_raw`. There was no iterator after it was taken out, so none has
            // it.
            drop(unsafe { Box::from_raw(entry) });
        }
        if let Some(cleanup) = self.cleanup {
            // SAFETY: rule "Interface": the program's function for an entry that has gone, called once.
            unsafe { cleanup(key, value) };
        }
        value
    }

    fn deleted(&self) -> MutexGuard<'_, Entries> {
        self.deleted.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn all(&self) -> Vec<*mut Entry> {
        let parts = self.parts.iter().map(|part| part.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        parts.flat_map(|part| part.0.values().flatten().copied().collect::<Vec<_>>()).collect()
    }

    fn end_iterator(&self) {
        // Before it counts down: entries deleted for a later iterator are not among these.
        let mut deleted = self.deleted();
        if self.iterators.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: `put` has made them, and no iterator is left that has them.
            deleted.0.drain(..).for_each(|entry| drop(unsafe { Box::from_raw(entry) }));
        }
    }
}

impl Drop for Dictionary {
    fn drop(&mut self) {
        for entry in self.all() {
            // SAFETY: rule "Objects": no other thread uses the dictionary any more. `put` has made the entry.
            let entry = unsafe { Box::from_raw(entry) };
            if let Some(cleanup) = self.cleanup {
                // SAFETY: rule "Interface": the program's function for an entry that has gone, called once.
                unsafe { cleanup(entry.key, entry.value) };
            }
        }
        // SAFETY: as above.
        self.deleted().0.drain(..).for_each(|entry| drop(unsafe { Box::from_raw(entry) }));
    }
}

/// The result of an iterator over nothing.
fn error() -> *mut Entry {
    ptr::without_provenance_mut(usize::MAX)
}

impl DictionaryIterator {
    fn new(dictionary: Object<Dictionary>) -> *mut DictionaryIterator {
        let Some(own) = dictionary.get() else { return ptr::null_mut() };
        own.iterators.fetch_add(1, Ordering::AcqRel);
        Box::into_raw(Box::new(DictionaryIterator { dictionary, entries: None, at: 0 }))
    }

    fn find(&mut self) -> &Vec<*mut Entry> {
        let dictionary = self.dictionary;
        self.entries.get_or_insert_with(|| dictionary.get().map_or_else(Vec::new, Dictionary::all))
    }

    fn current(&self) -> *mut Entry {
        let entry = self.at.checked_sub(1).and_then(|at| self.entries.as_ref()?.get(at));
        entry.copied().unwrap_or(ptr::null_mut())
    }
}

exports! {
    fn qt_dictionary_create(
        equals: Option<Equals>,
        hash: Option<Hash>,
        cleanup: Option<Cleanup>,
    ) -> *mut Dictionary {
        let (Some(equals), Some(hash)) = (equals, hash) else { return ptr::null_mut() };
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        let (iterators, deleted) = (AtomicUsize::new(0), Mutex::default());
        Box::into_raw(Box::new(Dictionary { equals, hash, cleanup, parts, iterators, deleted }))
    }

    fn qt_dictionary_destroy(dictionary: Object<Dictionary>) {
        drop(dictionary.end());
    }

    fn qt_dictionary_put(
        dictionary: Object<Dictionary>,
        key: *mut libc::c_void,
        value: *mut libc::c_void,
    ) -> *mut libc::c_void {
        dictionary.get().map_or(ptr::null_mut(), |own| own.put(key, value, true))
    }

    fn qt_dictionary_put_if_absent(
        dictionary: Object<Dictionary>,
        key: *mut libc::c_void,
        value: *mut libc::c_void,
    ) -> *mut libc::c_void {
        dictionary.get().map_or(ptr::null_mut(), |own| own.put(key, value, false))
    }

    fn qt_dictionary_get(dictionary: Object<Dictionary>, key: *mut libc::c_void) -> *mut libc::c_void {
        dictionary.get().map_or(ptr::null_mut(), |own| own.get(key))
    }

    fn qt_dictionary_delete(dictionary: Object<Dictionary>, key: *mut libc::c_void) -> *mut libc::c_void {
        dictionary.get().map_or(ptr::null_mut(), |own| own.delete(key))
    }

    fn qt_dictionary_iterator_create(dictionary: Object<Dictionary>) -> *mut DictionaryIterator {
        DictionaryIterator::new(dictionary)
    }

    fn qt_dictionary_iterator_destroy(iterator: Object<DictionaryIterator>) {
        if let Some(dictionary) = iterator.end().and_then(|iterator| iterator.dictionary.get()) {
            dictionary.end_iterator();
        }
    }

    fn qt_dictionary_iterator_next(iterator: Object<DictionaryIterator>) -> *mut Entry {
        let Some(iterator) = iterator.alone() else { return error() };
        let count = iterator.find().len();
        iterator.at = (iterator.at + 1).min(count + 1);
        iterator.current()
    }

    fn qt_dictionary_iterator_get(iterator: Object<DictionaryIterator>) -> *mut Entry {
        iterator.get().map_or(error(), DictionaryIterator::current)
    }

    fn qt_dictionary_end(dictionary: Object<Dictionary>) -> *mut DictionaryIterator {
        let end = DictionaryIterator::new(dictionary);
        // SAFETY: made above, or null.
        if let Some(end) = unsafe { end.as_mut() } {
            end.at = end.find().len() + 1;
        }
        end
    }

    fn qt_dictionary_iterator_equals(one: Object<DictionaryIterator>, two: Object<DictionaryIterator>) -> i32 {
        let (Some(one), Some(two)) = (one.get(), two.get()) else {
            return i32::from(one.pointer().is_null() && two.pointer().is_null());
        };
        let is_same = ptr::eq(one.dictionary.pointer(), two.dictionary.pointer())
            && ptr::eq(one.current(), two.current());
        // Before the first entry and behind the last one there is none.
        i32::from(is_same && (!one.current().is_null() || (one.at == 0) == (two.at == 0)))
    }

    fn qt_dictionary_iterator_copy(iterator: Object<DictionaryIterator>) -> *mut DictionaryIterator {
        let Some(own) = iterator.get() else { return ptr::null_mut() };
        let copy = DictionaryIterator::new(own.dictionary);
        // SAFETY: made above, or null.
        if let Some(copy) = unsafe { copy.as_mut() } {
            copy.entries.clone_from(&own.entries);
            copy.at = own.at;
        }
        copy
    }

    fn qt_dictionary_printbuckets(dictionary: Object<Dictionary>) {
        if let Some(dictionary) = dictionary.get() {
            println!("{} entries", dictionary.all().len());
        }
    }
}
