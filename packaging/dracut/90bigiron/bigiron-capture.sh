#!/bin/sh
# dracut hook, sourced by dracut: in a capture kernel, dumps to the raw device if one is configured.

# A failure must not stop the boot, because the distribution's own dump comes later.
/usr/lib/bigiron/capture-to-device || :
