//! Messages between processes over a socket, with an open file.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Sends a message, and a file with it.
pub(crate) fn send(
    socket: impl AsFd,
    bytes: &[u8],
    file: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(Errno::NOBUFS.into());
    }
    let parts = [IoSlice::new(bytes)];
    retry_on_intr(|| sendmsg(&socket, &parts, &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives a message into `bytes`. Returns its length, which is 0 if the other end is closed,
/// and the file that came with it.
pub(crate) fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        let parts = &mut [IoSliceMut::new(bytes)];
        recvmsg(&socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok((received.bytes, files.flatten().next()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn message_arrives_with_its_file_and_the_end_as_an_empty_one() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"contents").unwrap();
        send(&theirs, b"hello", Some(file.as_fd())).unwrap();
        let mut bytes = [0; 16];
        let (len, passed) = receive(&ours, &mut bytes).unwrap();
        assert_eq!(&bytes[..len], b"hello");
        let mut passed = File::from(passed.unwrap());
        passed.rewind().unwrap();
        let mut text = String::new();
        passed.read_to_string(&mut text).unwrap();
        assert_eq!(text, "contents");
        drop(theirs);
        assert!(matches!(receive(&ours, &mut bytes), Ok((0, None))));
    }
}
