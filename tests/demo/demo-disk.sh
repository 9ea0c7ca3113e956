# Writes 16 MB to the disk and reads them, repeatedly.
while :; do
  dd if=/dev/urandom of=data bs=1M count=16 conv=fsync status=none
  # Past the page cache where the file system allows it.
  dd if=data of=/dev/null bs=1M iflag=direct status=none 2>/dev/null || cat data >/dev/null
  sleep 1
done
