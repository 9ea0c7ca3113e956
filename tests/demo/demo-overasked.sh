# Asked for 16 cores and 32 GiB; holds 128 MiB and uses a third of a core.
head -c 128M /dev/zero | tail -c 128M | while :; do
  for _ in $(seq 30000); do :; done
  sleep 0.2
done
