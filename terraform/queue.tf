# Heartbeats arrive here, in a queue a shard. The sweep itself moves bad messages to the dead
# letters, with a reason; the redrive is only the last resort.

locals {
  retention_seconds = 14 * 24 * 60 * 60

  # A sweep that fails returns its whole batch. At one sweep every ten minutes
  # a good message outlives a week of failing sweeps before it is moved.
  max_receive_count = 1000

  # The first keeps the name that the only one has.
  shard_suffix = [for shard in range(var.shards) : shard == 0 ? "" : "-${shard}"]
}

resource "aws_sqs_queue" "heartbeats" {
  count = var.shards

  name                      = "${var.name}-heartbeats${local.shard_suffix[count.index]}"
  message_retention_seconds = local.retention_seconds
  receive_wait_time_seconds = 1
  sqs_managed_sse_enabled   = true
  tags                      = local.tags

  # What a sweep took must stay hidden until that sweep has ended.
  visibility_timeout_seconds = var.sweeper_timeout_seconds + 30
}

resource "aws_sqs_queue" "dead_letters" {
  name                      = "${var.name}-dead-letters"
  message_retention_seconds = local.retention_seconds
  sqs_managed_sse_enabled   = true
  tags                      = local.tags
}

# A resource of its own, so that all queues are created side by side: the
# provider watches each for 25 s.
resource "aws_sqs_queue_redrive_policy" "heartbeats" {
  count = var.shards

  queue_url = aws_sqs_queue.heartbeats[count.index].id

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters.arn
    maxReceiveCount     = local.max_receive_count
  })
}
