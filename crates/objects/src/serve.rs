//! The process that has the network.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::error::ObjectError;
use crate::location::Location;
use crate::protocol::{Reply, Request, Usage, receive, send};
use crate::store::{MAX_RANGE, Object, Store};

/// Answers the other process, over one or several connections at a time.
#[derive(Debug)]
pub struct Service {
    store: Result<Store, ObjectError>,
    objects: RwLock<Vec<Object>>,
    is_sealed: AtomicBool,
}

impl Service {
    /// Serves a store; an error is told to the other process when it asks.
    pub fn new(store: Result<Store, ObjectError>) -> Self {
        Self {
            store,
            objects: RwLock::default(),
            is_sealed: AtomicBool::new(false),
        }
    }

    /// Answers requests on a connection until the other end closes it.
    ///
    /// # Errors
    ///
    /// The connection broke, or what came over it is no request.
    pub fn serve(&self, connection: &mut (impl Read + Write)) -> io::Result<()> {
        while let Some((request, _)) = receive(connection)? {
            let (reply, bytes) = match self.answer(request) {
                Ok(answer) => answer,
                Err(error) => (Reply::Failed(error.to_string()), Vec::new()),
            };
            send(connection, &reply, &bytes)?;
        }
        Ok(())
    }

    fn answer(&self, request: Request) -> Result<(Reply, Vec<u8>), ObjectError> {
        let store = self.store.as_ref().map_err(Clone::clone)?;
        let is_sealed = self.is_sealed.load(Ordering::Acquire);
        let alone = |reply| Ok((reply, Vec::new()));
        match request {
            Request::Open(_) | Request::List(..) if is_sealed => Err(refused()),
            Request::Open(name) => {
                let (object, front) = store.open(&name.parse()?)?;
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
                let prefix: Location = prefix.parse()?;
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
        }
    }
}

fn refused() -> ObjectError {
    ObjectError::Remote("the process that has the network refuses the request".to_owned())
}
