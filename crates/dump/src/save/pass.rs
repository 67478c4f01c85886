//! Passes a dump on to a taker of streams, such as an upload, in place of a directory.

use bigiron_helpers::Stop;

use super::Save;
use super::origin::Origin;
use crate::device::refused;
use crate::error::DumpError;
use crate::output::NamedTaker;
use crate::progress::{Phase, Progress};

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;
/// Bytes per unit of progress.
const UNIT: u64 = 4096;

impl Save {
    /// Passes the bytes of the dump to `taker`, in order and unchanged, or decrypted with the keys
    /// of the options; returns their number. The mark stays: clear it after success.
    ///
    /// # Errors
    ///
    /// The dump is in several parts; it cannot be read to its end; or the taker does not take it.
    /// What was taken is kept, as an interrupted dump is.
    pub fn pass_to(
        &self,
        taker: &NamedTaker,
        progress: &Progress,
        stop: &Stop,
    ) -> Result<u64, DumpError> {
        let origin: &Origin = &self.origin;
        if origin.is_in_parts() {
            let reason = "is one part of several, which only become one in a directory; \
                          `bigiron dump` joins them in an object";
            return Err(refused(origin.path(), reason));
        }
        let bytes = origin.bytes()?;
        let size = bytes.size();
        progress.begin(Phase::Copying, size.div_ceil(UNIT));
        let refused = DumpError::output(taker.name(), "use it", "");
        let stream = taker.begin().map_err(refused)?;
        let kept = || stream.leave().ok().and_then(|()| stream.left());
        let mut piece = vec![0; PIECE];
        let mut done = 0;
        while done < size {
            if stop.is_set() {
                return Err(DumpError::Interrupted { kept: kept() });
            }
            let len = (size - done).min(PIECE as u64);
            let piece = &mut piece[..len as usize];
            if let Err(cause) = bytes.read_exact_at("the dump", done, piece) {
                // A copy with a hole would be taken for the dump.
                stream.discard();
                return Err(origin.read_error(cause));
            }
            stream.append(piece).map_err(|cause| DumpError::Write {
                path: taker.name().to_owned(),
                cause,
                kept: kept(),
            })?;
            done += len;
            progress.add(len.div_ceil(UNIT));
        }
        let written = DumpError::write(taker.name());
        stream.finish().map_err(written)?;
        Ok(size)
    }
}
