//! The process that has the network.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};

use crate::error::ObjectError;
use crate::location::Location;
use crate::parts::contiguous;
use crate::protocol::{CompletedUpload, Reply, Request, Usage, receive, send};
use crate::store::{MAX_RANGE, Object, Store};
use crate::upload::Completed;
use crate::uploader::{Uploader, exists};

/// Answers the other process, over one or several connections at a time.
#[derive(Debug)]
pub struct Service {
    store: Result<Arc<Store>, ObjectError>,
    objects: RwLock<Vec<Object>>,
    is_sealed: AtomicBool,
    /// Connections that have an upload.
    uploads: Mutex<usize>,
    upload_ended: Condvar,
}

impl Service {
    /// Serves a store; an error is told to the other process when it asks.
    pub fn new(store: Result<Store, ObjectError>) -> Self {
        Self {
            store: store.map(Arc::new),
            objects: RwLock::default(),
            is_sealed: AtomicBool::new(false),
            uploads: Mutex::new(0),
            upload_ended: Condvar::new(),
        }
    }

    /// Waits until no connection has an upload. One whose other end is gone uploads what it has.
    pub fn wait_for_uploads(&self) {
        let mut uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        while *uploads > 0 {
            uploads = self
                .upload_ended
                .wait(uploads)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Answers requests on a connection until the other end closes it.
    ///
    /// # Errors
    ///
    /// The connection broke, or what came over it is no request.
    pub fn serve(&self, connection: &mut (impl Read + Write)) -> io::Result<()> {
        let mut upload = ConnectionUpload {
            service: self,
            uploader: None,
        };
        while let Some((request, bytes)) = receive(connection)? {
            let answer = match request {
                Request::Upload(name, overwrite) => upload.begin(&name, overwrite),
                Request::Append => upload.append(&bytes),
                Request::Finish => upload.end(Uploader::finish),
                Request::Leave => upload.end(|uploader| {
                    drop(uploader);
                    Ok(())
                }),
                Request::Abort => upload.end(Uploader::abort),
                request => self.answer(request),
            };
            let (reply, bytes) = match answer {
                Ok(answer) => answer,
                Err(error) => (Reply::Failed(error.to_string()), Vec::new()),
            };
            send(connection, &reply, &bytes)?;
        }
        Ok(())
    }

    fn store(&self) -> Result<&Arc<Store>, ObjectError> {
        self.store.as_ref().map_err(Clone::clone)
    }

    /// The object or the prefix of this name, if it is of the store's kind.
    fn location(&self, name: &str) -> Result<Location, ObjectError> {
        let location: Location = name.parse()?;
        let scheme = self.store()?.scheme();
        match location.scheme == scheme {
            true => Ok(location),
            false => Err(ObjectError::Location {
                name: name.to_owned(),
                reason: format!(
                    "is of another kind than the {}:// that this command reads as well; give \
                     objects of one kind",
                    scheme.name()
                ),
            }),
        }
    }

    /// Makes an object of the latest upload of `location`.
    fn complete(
        &self,
        location: &Location,
        overwrite: bool,
    ) -> Result<CompletedUpload, ObjectError> {
        let store = self.store()?;
        let uploads = store.uploads(location)?;
        let Some(upload) = uploads.first() else {
            return Err(ObjectError::Location {
                name: location.to_string(),
                reason: "there is no upload of this name that is not complete".to_owned(),
            });
        };
        let all = store.parts(upload)?;
        let parts = contiguous(&all);
        if parts.is_empty() {
            return Err(ObjectError::Location {
                name: location.to_string(),
                reason: format!(
                    "its upload of {} has no first part, so there is nothing to complete",
                    upload.begun
                ),
            });
        }
        match store.complete(upload, parts, overwrite)? {
            Completed::Yes => Ok(CompletedUpload {
                parts: parts.len(),
                unused: all.len() - parts.len(),
                bytes: parts.iter().map(|part| part.size).sum(),
                begun: upload.begun.clone(),
            }),
            Completed::Exists => Err(exists(location)),
        }
    }

    fn answer(&self, request: Request) -> Result<(Reply, Vec<u8>), ObjectError> {
        let store = self.store()?;
        let is_sealed = self.is_sealed.load(Ordering::Acquire);
        let alone = |reply| Ok((reply, Vec::new()));
        match request {
            Request::Open(_) | Request::List(..) | Request::Complete(..) | Request::Remove(_)
                if is_sealed =>
            {
                Err(refused())
            }
            Request::Open(name) => {
                let (object, front) = store.open(&self.location(&name)?)?;
                let size = object.size;
                let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
                let number = u32::try_from(objects.len()).map_err(|_| refused())?;
                objects.push(object);
                Ok((Reply::Opened(number, size), front))
            }
            Request::Read(number, offset, len) => {
                let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
                let object = objects.get(number as usize).cloned().ok_or_else(refused)?;
                drop(objects);
                let end = offset.saturating_add(len.into());
                if len == 0 || u64::from(len) > MAX_RANGE || end > object.size {
                    return Err(refused());
                }
                Ok((Reply::Bytes, store.read(&object, &(offset..end))?))
            }
            Request::List(prefix, next) => {
                let prefix = self.location(&prefix)?;
                alone(Reply::Page(store.list(&prefix, next)?))
            }
            Request::Seal => {
                self.is_sealed.store(true, Ordering::Release);
                alone(Reply::Done)
            }
            Request::Usage => {
                let (bytes, requests) = store.counts();
                alone(Reply::Usage(Usage { bytes, requests }))
            }
            Request::Remove(name) => {
                store.remove(&self.location(&name)?)?;
                alone(Reply::Done)
            }
            Request::Complete(name, overwrite) => {
                let completed = self.complete(&self.location(&name)?, overwrite)?;
                alone(Reply::Completed(completed))
            }
            // Those of a connection.
            Request::Upload(..)
            | Request::Append
            | Request::Finish
            | Request::Leave
            | Request::Abort => Err(refused()),
        }
    }
}

/// The upload of a connection, which uploads what it has when the connection ends.
struct ConnectionUpload<'s> {
    service: &'s Service,
    uploader: Option<Uploader>,
}

impl ConnectionUpload<'_> {
    fn begin(&mut self, name: &str, overwrite: bool) -> Result<(Reply, Vec<u8>), ObjectError> {
        let is_sealed = self.service.is_sealed.load(Ordering::Acquire);
        if is_sealed || self.uploader.is_some() {
            return Err(refused());
        }
        let location = self.service.location(name)?;
        let uploader = Uploader::begin(self.service.store()?, &location, overwrite)?;
        self.uploader = Some(uploader);
        self.count(1);
        Ok((Reply::Done, Vec::new()))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(Reply, Vec<u8>), ObjectError> {
        let uploader = self.uploader.as_mut().ok_or_else(refused)?;
        uploader.append(bytes)?;
        Ok((Reply::Done, Vec::new()))
    }

    fn end(
        &mut self,
        how: impl FnOnce(Uploader) -> Result<(), ObjectError>,
    ) -> Result<(Reply, Vec<u8>), ObjectError> {
        let uploader = self.uploader.take().ok_or_else(refused)?;
        let ended = how(uploader);
        self.count(-1);
        ended.map(|()| (Reply::Done, Vec::new()))
    }

    fn count(&self, change: isize) {
        let service = self.service;
        let mut uploads = service
            .uploads
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *uploads = uploads.saturating_add_signed(change);
        service.upload_ended.notify_all();
    }
}

impl Drop for ConnectionUpload<'_> {
    fn drop(&mut self) {
        let _ = self.end(|uploader| {
            drop(uploader);
            Ok(())
        });
    }
}

fn refused() -> ObjectError {
    ObjectError::Remote("the process that has the network refuses the request".to_owned())
}
