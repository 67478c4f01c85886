//! A stream of bytes that becomes an object.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::error::ObjectError;
use crate::location::Location;
use crate::parts::{MAX_PARTS, Part, Upload, part_size};
use crate::store::Store;
use crate::upload::Completed;

/// Parts that are uploaded at a time. As many are in memory, one that waits, and the one that is
/// being filled.
const IN_FLIGHT: usize = 2;

/// An upload, to which bytes are appended.
///
/// Dropped without [`Uploader::finish`] it uploads what it has, and leaves the upload to be
/// completed by another process.
#[derive(Debug)]
pub struct Uploader {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    overwrite: bool,
    number: u32,
    part: Vec<u8>,
}

#[derive(Debug)]
struct Shared {
    store: Arc<Store>,
    upload: Upload,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(u32, Vec<u8>)>,
    done: Vec<Part>,
    failure: Option<ObjectError>,
    is_ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Uploads parts until there will be no more.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some((number, bytes)) = state.waiting.pop_front() {
                drop(state);
                self.changed.notify_all();
                let put = self.store.put_part(&self.upload, number, &bytes);
                state = self.lock();
                match put {
                    Ok(part) => state.done.push(part),
                    Err(error) => {
                        state.failure.get_or_insert(error);
                        state.waiting.clear();
                    }
                }
                self.changed.notify_all();
            } else if state.is_ended {
                return;
            } else {
                state = self.wait(state);
            }
        }
    }
}

impl Uploader {
    /// Begins an upload.
    ///
    /// # Errors
    ///
    /// There is such an object, which is not to be overwritten, or the server refuses the upload.
    pub fn begin(
        store: &Arc<Store>,
        location: &Location,
        overwrite: bool,
    ) -> Result<Self, ObjectError> {
        if location.key.is_empty() || location.key.ends_with('/') {
            return Err(ObjectError::Location {
                name: location.to_string(),
                reason: "is a prefix; give the whole name of the new object".to_owned(),
            });
        }
        if !overwrite && store.size(location)?.is_some() {
            return Err(exists(location));
        }
        let shared = Arc::new(Shared {
            store: Arc::clone(store),
            upload: store.begin_upload(location)?,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let mut workers = Vec::with_capacity(IN_FLIGHT);
        for _ in 0..IN_FLIGHT {
            let shared = Arc::clone(&shared);
            let worker = thread::Builder::new().spawn(move || shared.work());
            workers.push(worker.map_err(|error| ObjectError::Lost(error.to_string()))?);
        }
        Ok(Self {
            shared,
            workers,
            overwrite,
            number: 1,
            part: Vec::new(),
        })
    }

    /// Appends bytes. Waits while as many parts are being uploaded as may be at a time.
    ///
    /// # Errors
    ///
    /// A part could not be uploaded, or the object has as many bytes as an object can have.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<(), ObjectError> {
        while !bytes.is_empty() {
            let size = part_size(self.number) as usize;
            if self.part.capacity() == 0 {
                self.part.reserve_exact(size);
            }
            let (now, later) = bytes.split_at(bytes.len().min(size - self.part.len()));
            self.part.extend_from_slice(now);
            bytes = later;
            if self.part.len() == size {
                self.pass_on()?;
            }
        }
        Ok(())
    }

    /// Gives the part to the workers, when one of them is free.
    fn pass_on(&mut self) -> Result<(), ObjectError> {
        if self.number > MAX_PARTS {
            return Err(ObjectError::Answer {
                url: self.shared.upload.location.to_string(),
                action: "upload a part",
                reason: format!("an object has at most {MAX_PARTS} parts"),
            });
        }
        let mut state = self.shared.lock();
        while state.failure.is_none() && !state.waiting.is_empty() {
            state = self.shared.wait(state);
        }
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let part = std::mem::take(&mut self.part);
        state.waiting.push_back((self.number, part));
        drop(state);
        self.shared.changed.notify_all();
        self.number += 1;
        Ok(())
    }

    /// Uploads what is left, and waits for all parts.
    fn flush(&mut self) -> Result<Vec<Part>, ObjectError> {
        // An object without bytes has one part without bytes.
        let passed = match self.part.is_empty() && self.number > 1 {
            true => Ok(()),
            false => self.pass_on(),
        };
        self.shared.lock().is_ended = true;
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
        passed?;
        let mut state = self.shared.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        state.done.sort_by_key(|part| part.number);
        Ok(std::mem::take(&mut state.done))
    }

    /// Uploads what is left, and makes an object of all parts.
    ///
    /// # Errors
    ///
    /// A part could not be uploaded; they could not be completed; or such an object has appeared,
    /// which is not to be overwritten. The parts stay.
    pub fn finish(mut self) -> Result<(), ObjectError> {
        let parts = self.flush()?;
        let shared = &self.shared;
        match shared
            .store
            .complete(&shared.upload, &parts, self.overwrite)?
        {
            Completed::Yes => Ok(()),
            Completed::Exists => Err(exists(&shared.upload.location)),
        }
    }

    /// Gives up the upload, and the parts with it.
    ///
    /// # Errors
    ///
    /// The server refuses it.
    pub fn abort(mut self) -> Result<(), ObjectError> {
        self.part.clear();
        self.shared.lock().waiting.clear();
        let _ = self.flush();
        self.shared.store.abort(&self.shared.upload)
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        if !self.workers.is_empty() {
            let _ = self.flush();
        }
    }
}

/// The error for an object that is there already.
pub fn exists(location: &Location) -> ObjectError {
    ObjectError::Location {
        name: location.to_string(),
        reason: "there is such an object already; give --overwrite, or another name".to_owned(),
    }
}
