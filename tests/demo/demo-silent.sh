# Waits for a response that never arrives. `read` is a shell builtin, so one process hangs in one
# system call, as a client without a timeout does.
exec 3<>"/dev/tcp/127.0.0.1/$SILENT_PORT"
printf 'GET / HTTP/1.0\r\n\r\n' >&3
read -r -u 3 answer
printf '%s\n' "$answer"
