//! The process that has no network.

use std::io;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::error::ObjectError;
use crate::listing::Page;
use crate::location::Location;
use crate::object::{CachedObject, Fetch};
use crate::protocol::{CompletedUpload, Reply, Request, Usage, receive, send};

/// Maximum number of requests at a time.
const CONNECTIONS: usize = 8;

/// Makes connections to the process that has the network.
pub trait Connect: Send + Sync {
    /// Makes one.
    fn connect(&self) -> io::Result<UnixStream>;
}

/// The process that has the network, seen from the one that parses.
pub struct Remote {
    connect: Box<dyn Connect>,
    pool: Mutex<Pool>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<UnixStream>,
    /// Connections that were made, idle or not.
    made: usize,
}

impl Remote {
    /// Makes connections by `connect` when they are needed.
    pub fn new(connect: Box<dyn Connect>) -> Self {
        Self {
            connect,
            pool: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    /// Opens an object, which is read at random and by several threads.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn open(
        self: &Arc<Self>,
        location: &Location,
    ) -> Result<CachedObject<RemoteObject>, ObjectError> {
        match self.ask(&Request::Open(location.to_string()))? {
            (Reply::Opened(number, size), front) => {
                let object = RemoteObject {
                    remote: Arc::clone(self),
                    number,
                };
                Ok(CachedObject::new(object, size, &front))
            }
            _ => Err(unexpected()),
        }
    }

    /// Lists objects whose names begin as `prefix`, from `next` of the page before on.
    ///
    /// # Errors
    ///
    /// The bucket cannot be listed.
    pub fn list(&self, prefix: &Location, next: Option<String>) -> Result<Page, ObjectError> {
        match self.ask(&Request::List(prefix.to_string(), next))?.0 {
            Reply::Page(page) => Ok(page),
            _ => Err(unexpected()),
        }
    }

    /// Removes an object.
    ///
    /// # Errors
    ///
    /// The server refuses it.
    pub fn remove(&self, location: &Location) -> Result<(), ObjectError> {
        self.ask(&Request::Remove(location.to_string())).map(|_| ())
    }

    /// Makes the other process refuse all but reads of the objects that are open.
    ///
    /// # Errors
    ///
    /// It does not answer.
    pub fn seal(&self) -> Result<(), ObjectError> {
        // Later there may be no way to make connections.
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        while pool.made < CONNECTIONS {
            let connection = self.connect.connect().map_err(lost)?;
            pool.idle.push(connection);
            pool.made += 1;
        }
        drop(pool);
        self.ask(&Request::Seal).map(|_| ())
    }

    /// What all requests have cost.
    ///
    /// # Errors
    ///
    /// The other process does not answer.
    pub fn usage(&self) -> Result<Usage, ObjectError> {
        match self.ask(&Request::Usage)?.0 {
            Reply::Usage(usage) => Ok(usage),
            _ => Err(unexpected()),
        }
    }

    /// Begins an upload. Without `overwrite` an object of this name stays.
    ///
    /// # Errors
    ///
    /// There is such an object, or the server refuses the upload.
    pub fn upload(
        self: &Arc<Self>,
        location: &Location,
        overwrite: bool,
    ) -> Result<RemoteUpload, ObjectError> {
        let connection = self.connect.connect().map_err(lost)?;
        let upload = RemoteUpload {
            connection: Mutex::new(Some(connection)),
            _remote: Arc::clone(self),
        };
        upload.ask(&Request::Upload(location.to_string(), overwrite), &[])?;
        Ok(upload)
    }

    /// Makes an object of the parts of the latest upload of this name.
    ///
    /// # Errors
    ///
    /// There is no such upload, it has no first part, or there is such an object.
    pub fn complete(
        &self,
        location: &Location,
        overwrite: bool,
    ) -> Result<CompletedUpload, ObjectError> {
        let request = Request::Complete(location.to_string(), overwrite);
        match self.ask(&request)?.0 {
            Reply::Completed(completed) => Ok(completed),
            _ => Err(unexpected()),
        }
    }

    fn ask(&self, request: &Request) -> Result<(Reply, Vec<u8>), ObjectError> {
        let mut connection = self.take()?;
        let answer = send(&mut connection, request, &[]).and_then(|()| receive(&mut connection));
        let answer = answer.and_then(|answer| answer.ok_or(io::ErrorKind::UnexpectedEof.into()));
        // A connection on which something went wrong goes back, too: a thread that waits for one
        // must see the same error.
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.idle.push(connection);
        drop(pool);
        self.returned.notify_one();
        match answer.map_err(lost)? {
            (Reply::Failed(text), _) => Err(ObjectError::Remote(text)),
            answer => Ok(answer),
        }
    }

    fn take(&self) -> Result<UnixStream, ObjectError> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(connection) = pool.idle.pop() {
                return Ok(connection);
            }
            if pool.made < CONNECTIONS {
                let connection = self.connect.connect().map_err(lost)?;
                pool.made += 1;
                return Ok(connection);
            }
            pool = self
                .returned
                .wait(pool)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn lost(error: io::Error) -> ObjectError {
    ObjectError::Lost(error.to_string())
}

fn unexpected() -> ObjectError {
    ObjectError::Lost("its answer is to another request".to_owned())
}

/// An object that the other process has opened.
pub struct RemoteObject {
    remote: Arc<Remote>,
    number: u32,
}

impl Fetch for RemoteObject {
    fn fetch(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let len = range.end.saturating_sub(range.start);
        let len = u32::try_from(len).map_err(io::Error::other)?;
        let request = Request::Read(self.number, range.start, len);
        match self.remote.ask(&request).map_err(io::Error::other)? {
            (Reply::Bytes, bytes) => Ok(bytes),
            _ => Err(io::Error::other(unexpected())),
        }
    }
}

/// Maximum number of bytes in a message of an upload.
const MAX_APPEND: usize = 1 << 20;

/// An upload by the other process. Dropped before its end it is left to be completed later, with
/// all bytes that were appended.
pub struct RemoteUpload {
    /// `None` at the end.
    connection: Mutex<Option<UnixStream>>,
    /// The other process ends with it.
    _remote: Arc<Remote>,
}

impl RemoteUpload {
    /// Appends bytes.
    ///
    /// # Errors
    ///
    /// They, or earlier ones, could not be uploaded.
    pub fn append(&self, bytes: &[u8]) -> Result<(), ObjectError> {
        let mut chunks = bytes.chunks(MAX_APPEND);
        chunks.try_for_each(|chunk| self.ask(&Request::Append, chunk))
    }

    /// Makes an object of all bytes.
    ///
    /// # Errors
    ///
    /// See [`ObjectError`]; the parts stay.
    pub fn finish(&self) -> Result<(), ObjectError> {
        self.end(&Request::Finish)
    }

    /// Uploads all bytes, and leaves the upload to be completed later.
    ///
    /// # Errors
    ///
    /// They could not be uploaded.
    pub fn leave(&self) -> Result<(), ObjectError> {
        self.end(&Request::Leave)
    }

    /// Gives the upload up.
    ///
    /// # Errors
    ///
    /// The server refuses it.
    pub fn abort(&self) -> Result<(), ObjectError> {
        self.end(&Request::Abort)
    }

    fn end(&self, how: &Request) -> Result<(), ObjectError> {
        let ended = self.ask(how, &[]);
        *self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
        ended
    }

    fn ask(&self, request: &Request, bytes: &[u8]) -> Result<(), ObjectError> {
        let mut connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let ended = || io::Error::other("the upload has ended");
        let connection = connection.as_mut().ok_or_else(ended).map_err(lost)?;
        let answer = send(connection, request, bytes).and_then(|()| receive(connection));
        match answer.map_err(lost)? {
            Some((Reply::Done, _)) => Ok(()),
            Some((Reply::Failed(text), _)) => Err(ObjectError::Remote(text)),
            Some(_) => Err(unexpected()),
            None => Err(lost(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

impl Drop for RemoteUpload {
    fn drop(&mut self) {
        let connection = self.connection.get_mut();
        let is_open = connection.unwrap_or_else(PoisonError::into_inner).is_some();
        if is_open {
            let _ = self.leave();
        }
    }
}
