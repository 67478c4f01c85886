//! Describes all dumps by processes, several at a time, and writes the table.

use std::fs::{self, File, OpenOptions};
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::child::Child;
use crate::error::FleetError;
use crate::find::Found;
use crate::journal::{Journal, PRIVATE};
use crate::read::{read_table, table_files};
use crate::row::Row;
use crate::shard::Shard;
use crate::write::{TableWriter, io_error};

/// How a table is made.
#[derive(Debug)]
pub struct Run<'r> {
    /// Directory of the table.
    pub directory: &'r Path,
    /// The part of the dumps that is described.
    pub shard: Shard,
    /// Number of processes at a time.
    pub workers: usize,
    /// What describes a dump.
    pub child: Child,
    /// Describe those again that failed.
    pub retry: bool,
    /// Version of the rules for signatures, for dumps that cannot be described.
    pub rules_version: u32,
    /// Set to end early. What is done is kept for the next run.
    pub stop: &'r AtomicBool,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The file.
    pub table: PathBuf,
    /// Rows in it.
    pub rows: usize,
    /// Rows whose dump could not be described.
    pub failed: usize,
    /// Dumps described by this run.
    pub described: usize,
    /// Dumps that were done before.
    pub skipped: usize,
    /// True if it was ended early: then the table was not written.
    pub is_stopped: bool,
}

/// Describes those of `found` that belong to the shard and are not done, and writes the table;
/// `progress` gets each new row. The table has the same bytes whatever the number of workers.
///
/// # Errors
///
/// The output cannot be used. A dump that cannot be read is not an error.
pub fn run(
    found: &[Found],
    run: &Run<'_>,
    progress: &(dyn Fn(&Row) + Sync),
) -> Result<Outcome, FleetError> {
    fs::create_dir_all(run.directory).map_err(FleetError::io(run.directory, "make it"))?;
    check_shards(run)?;
    let table = run.directory.join(run.shard.file_name());
    let mut name = table.clone().into_os_string();
    name.push(".rows");
    let mut journal = Journal::open(Path::new(&name))?;
    let had_table = table.exists();
    // Rows that a killed run left behind are newer than those of the table.
    let left_behind = journal.counts().0;
    if had_table {
        let mut added = Ok(());
        read_table(&table, &mut |row| {
            if added.is_ok() && !journal.has(&row.path) {
                added = journal.add(&row);
            }
        })?;
        added?;
    }
    let ours = found.iter().filter(|found| run.shard.has(&found.path));
    let (done, left): (Vec<_>, Vec<_>) = ours.partition(|found| journal.is_done(found, run.retry));
    let journal = Mutex::new(journal);
    let described = describe(&left, run, &journal, progress)?;
    let journal = journal.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (rows, failed) = journal.counts();
    let outcome = Outcome {
        table,
        rows,
        failed,
        described,
        skipped: done.len(),
        is_stopped: described < left.len(),
    };
    if outcome.is_stopped {
        return Ok(outcome);
    }
    if !had_table || described > 0 || left_behind > 0 {
        write(&journal, &outcome.table)?;
    }
    journal.remove()?;
    Ok(outcome)
}

/// Refuses a directory with files of another number of shards.
fn check_shards(run: &Run<'_>) -> Result<(), FleetError> {
    for file in table_files(run.directory)? {
        let name = file.file_name().and_then(|name| name.to_str());
        let count = name.and_then(Shard::count_in);
        if count.is_some_and(|count| count != run.shard.count()) {
            return Err(FleetError::Busy {
                path: file,
                reason: format!(
                    "belongs to a table of another number of shards than {}; give the same \
                     --shard, or another directory",
                    run.shard.count()
                ),
            });
        }
    }
    Ok(())
}

/// Returns the number of dumps that were described.
fn describe(
    left: &[&Found],
    run: &Run<'_>,
    journal: &Mutex<Journal>,
    progress: &(dyn Fn(&Row) + Sync),
) -> Result<usize, FleetError> {
    let (next, described) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while !run.stop.load(Ordering::Relaxed) {
            let Some(found) = left.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let row = row_of(found, run);
            // A process that was ended with this one says nothing about its dump.
            if run.stop.load(Ordering::Relaxed) {
                break;
            }
            journal
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add(&row)?;
            described.fetch_add(1, Ordering::Relaxed);
            progress(&row);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers = run.workers.clamp(1, left.len().max(1));
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or(Ok(())))
    })?;
    Ok(described.into_inner())
}

fn row_of(found: &Found, run: &Run<'_>) -> Row {
    let row = run
        .child
        .describe(&found.path)
        .unwrap_or_else(|reason| Row {
            kind: Row::UNKNOWN.to_owned(),
            rules_version: run.rules_version.into(),
            errors: vec![reason],
            ..Row::default()
        });
    Row {
        path: found.path.clone(),
        bytes: found.bytes,
        modified: found.modified,
        ..row
    }
}

/// Writes the table under a temporary name, which becomes final when it is durable.
fn write(journal: &Journal, table: &Path) -> Result<(), FleetError> {
    let temporary = table.with_extension("parquet.rows.new");
    let error = |action| FleetError::io(&temporary, action);
    let parquet = || FleetError::parquet(&temporary, "write it");
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(PRIVATE);
    let file = options.open(&temporary).map_err(error("make it"))?;
    let mut writer = TableWriter::new(BufWriter::new(file)).map_err(parquet())?;
    journal.for_each(&mut |row| writer.add(&row).map_err(parquet()))?;
    let file = writer
        .finish()
        .map_err(io_error)
        .map_err(error("write it"))?;
    let file = file.into_inner().map_err(|error| error.into_error());
    let synced = file.and_then(|file| file.sync_all());
    synced.map_err(error("write it"))?;
    fs::rename(&temporary, table).map_err(FleetError::io(table, "give it its name"))?;
    let directory = table.parent().unwrap_or(Path::new("."));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(FleetError::io(directory, "sync it"))
}
