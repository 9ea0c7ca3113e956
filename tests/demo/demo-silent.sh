# Waits for an answer that never comes. `read` is the shell's own, so that one
# process hangs in one system call, as a client without a timeout does.
exec 3<>"/dev/tcp/127.0.0.1/$SILENT_PORT"
printf 'GET / HTTP/1.0\r\n\r\n' >&3
read -r -u 3 answer
printf '%s\n' "$answer"
