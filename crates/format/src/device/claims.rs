//! Signatures of other uses of a disk, such as file systems, so that no dump overwrites them.

use crate::bytes::ReadAt;
use crate::error::FormatError;

/// Bytes searched at the start. The farthest signature is that of a ZFS label.
const FRONT: u64 = 512 << 10;
/// Bytes searched at the end, for the same reason.
const BACK: u64 = 512 << 10;

/// Another use found on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Name of the use.
    pub name: &'static str,
    /// Offset of its signature.
    pub offset: u64,
    /// Length of the signature, in bytes.
    pub len: usize,
}

/// Signatures at an offset from the start. The source is the kernel's header of that name
/// unless another is given.
const FRONT_SIGNATURES: &[(&str, u64, &[u8])] = &[
    // s_magic of the superblock at 1024: fs/ext4/ext4.h, EXT4_SUPER_MAGIC.
    ("ext2, ext3 or ext4 file system", 1080, &[0x53, 0xef]),
    // fs/xfs/libxfs/xfs_format.h, XFS_SB_MAGIC; xfs_log_format.h for a log of its own.
    ("XFS file system", 0, b"XFSB"),
    ("XFS log", 0, &[0xfe, 0xed, 0xba, 0xbe]),
    // include/uapi/linux/btrfs_tree.h, BTRFS_MAGIC; fs/btrfs/disk-io.h, BTRFS_SUPER_INFO_OFFSET.
    ("Btrfs file system", 0x1_0040, b"_BHRfS_M"),
    // include/linux/f2fs_fs.h, F2FS_SUPER_OFFSET, F2FS_SUPER_MAGIC.
    ("F2FS file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    // fs/bcachefs/bcachefs_format.h, BCHFS_MAGIC and BCACHE_MAGIC, at sector 8.
    (
        "bcachefs file system",
        4120,
        &[
            0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9, 0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d,
            0xf7, 0xef,
        ],
    ),
    (
        "bcache or bcachefs device",
        4120,
        &[
            0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba,
            0x6d, 0x81,
        ],
    ),
    // The last ten bytes of a page, include/linux/swap.h, union swap_header; by page size.
    ("swap space", 4086, b"SWAPSPACE2"),
    ("swap space", 8182, b"SWAPSPACE2"),
    ("swap space", 16374, b"SWAPSPACE2"),
    ("swap space", 65526, b"SWAPSPACE2"),
    ("swap space", 4086, b"SWAP-SPACE"),
    // kernel/power/swap.c, HIBERNATE_SIG, in the place of swap's.
    ("hibernated system", 4086, b"S1SUSPEND"),
    ("hibernated system", 65526, b"S1SUSPEND"),
    // lib/label/label.h of LVM2: in one of the first four sectors.
    ("LVM physical volume", 0, b"LABELONE"),
    ("LVM physical volume", 512, b"LABELONE"),
    ("LVM physical volume", 1024, b"LABELONE"),
    ("LVM physical volume", 1536, b"LABELONE"),
    // LUKS on-disk format specification; the second header of LUKS2 where it stands by default.
    ("LUKS volume", 0, b"LUKS\xba\xbe"),
    ("LUKS volume", 16384, b"SKUL\xba\xbe"),
    // include/uapi/linux/raid/md_p.h, MD_SB_MAGIC; versions 1.1 and 1.2 (drivers/md/md.c).
    ("md RAID member", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("md RAID member", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    // UEFI specification 5.3.2, at block 1, for both usual block sizes.
    ("GPT partition table", 512, b"EFI PART"),
    ("GPT partition table", 4096, b"EFI PART"),
    // OEM names and types in boot sectors: libblkid/src/superblocks/{ntfs,exfat,vfat,bitlocker}.c.
    ("NTFS file system", 3, b"NTFS    "),
    ("exFAT file system", 3, b"EXFAT   "),
    ("BitLocker volume", 3, b"-FVE-FS-"),
    ("FAT file system", 82, b"FAT32   "),
    ("FAT file system", 54, b"FAT16   "),
    ("FAT file system", 54, b"FAT12   "),
    // The kernel's own numbers, fs/NAME.
    ("JFS file system", 32768, b"JFS1"),
    ("ReiserFS file system", 65588, b"ReIsEr"),
    ("GFS2 file system", 65536, &[0x01, 0x16, 0x19, 0x70]),
    ("NILFS2 file system", 1030, &[0x34, 0x34]),
    ("OCFS2 file system", 1024, b"OCFSV2"),
    ("OCFS2 file system", 2048, b"OCFSV2"),
    ("OCFS2 file system", 4096, b"OCFSV2"),
    ("OCFS2 file system", 8192, b"OCFSV2"),
    ("EROFS file system", 1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
    ("SquashFS file system", 0, b"hsqs"),
    ("ISO 9660 file system", 32769, b"CD001"),
    ("UDF file system", 32769, b"BEA01"),
    ("HFS+ file system", 1024, b"H+"),
    ("HFS+ file system", 1024, b"HX"),
    ("APFS container", 32, b"NXSB"),
    // Device mapper's targets, drivers/md/dm-{verity-target,integrity,vdo}.
    ("dm-verity volume", 0, b"verity\0\0"),
    ("dm-integrity volume", 0, b"integrt\0"),
    ("VDO volume", 0, b"dmvdo001"),
    // src/engine/strat_engine/metadata of stratisd.
    ("Stratis pool member", 516, b"!Stra0tis\x86\xff\x02^\x41rh"),
    // src/os/bluestore of Ceph.
    ("Ceph BlueStore device", 0, b"bluestore block device"),
    // libblkid/src/superblocks/oracleasm.c.
    ("Oracle ASM disk", 32, b"ORCLDISK"),
    // block/partitions/msdos.c; last, since boot sectors of file systems have it too.
    ("DOS partition table", 510, &[0x55, 0xaa]),
];

/// An uberblock's magic number, in either byte order: include/sys/uberblock_impl.h of OpenZFS.
const ZFS_MAGICS: [[u8; 8]; 2] = [
    [0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c],
];
/// Bytes of a label; its second half holds uberblocks, at least 1 KiB apart
/// (include/sys/vdev_impl.h).
const ZFS_LABEL: u64 = 256 << 10;

/// Finds other uses of a device, the plausible ones first.
///
/// # Errors
///
/// The device cannot be read.
pub fn find_claims(device: &(impl ReadAt + ?Sized)) -> Result<Vec<Claim>, FormatError> {
    const WHAT: &str = "what is on the device";
    let size = device.size();
    let front = device.read_vec_at(WHAT, 0, FRONT.min(size))?;
    let back_at = size - BACK.min(size);
    let back = device.read_vec_at(WHAT, back_at, size - back_at)?;
    let is_at = |offset: u64, signature: &[u8]| {
        let within = |bytes: &[u8], from: u64| {
            let at = offset
                .checked_sub(from)
                .and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| bytes.get(at..))
                .is_some_and(|bytes| bytes.starts_with(signature))
        };
        within(&front, 0) || within(&back, back_at)
    };
    let mut claims = Vec::new();
    let mut look = |name, offset, signature: &[u8]| {
        if is_at(offset, signature) {
            claims.push(Claim {
                name,
                offset,
                len: signature.len(),
            });
        }
    };
    for (name, offset, signature) in FRONT_SIGNATURES {
        look(name, *offset, signature);
    }
    for from_end in [512, 4096] {
        if let Some(offset) = size.checked_sub(from_end) {
            look("GPT partition table", offset, b"EFI PART");
        }
    }
    // Versions 0.90 and 1.0 of md, drivers/md/md.c: calc_dev_sboffset(), super_1_load().
    let md_old = (size & !0xffff).checked_sub(0x1_0000);
    let md_end = (size / 512)
        .checked_sub(16)
        .map(|sector| (sector & !7) * 512);
    for offset in [md_old, md_end].into_iter().flatten() {
        look("md RAID member", offset, &[0xfc, 0x4e, 0x2b, 0xa9]);
    }
    let end_labels = size / ZFS_LABEL * ZFS_LABEL;
    let labels = [
        Some(0),
        Some(ZFS_LABEL),
        end_labels.checked_sub(2 * ZFS_LABEL),
        end_labels.checked_sub(ZFS_LABEL),
    ];
    for label in labels.into_iter().flatten() {
        for slot in (ZFS_LABEL / 2..ZFS_LABEL).step_by(1024) {
            for magic in &ZFS_MAGICS {
                look("ZFS pool member", label + slot, magic);
            }
        }
    }
    claims.sort_by_key(|claim| claim.name == "DOS partition table");
    Ok(claims)
}
