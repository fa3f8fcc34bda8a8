# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a deck does, as far as the documents promise different things for it. The functions take a case."""
BATCH_NORM_PRESETS = ("resnet8", "resnet18_cifar", "wide_resnet", "speech_cnn")


def layers(case):
    return [entry if isinstance(entry, str) else next(key for key in entry if key not in ("name", "from"))
            for entry in case.get("model.layers", [])]


def has_batch_norm(case):
    return "batch_norm" in layers(case) or case.get("model.preset") in BATCH_NORM_PRESETS


def has_norm(case):
    """A layer divides by a standard deviation, which may be small."""
    return has_batch_norm(case) or case.get("model.preset") in ("transformer", "vit") or any("norm" in layer for layer in layers(case))


def parallel(case, *keys):
    """True if the section parallel has one of these keys."""
    return any(case.get(f"parallel.{key}") is not None for key in keys)


def is_synchronous(case):
    """All ranks take the same steps, with gradients of the whole batch."""
    return not parallel(case, "local", "asynchronous", "backup", "compress")


def depends_on_time(case):
    """Numbers, or their last bits, depend on how fast ranks are (loose_synchrony.md; parallel.md#shares-by-speed)."""
    return (case.get("parallel.asynchronous.schedule.free", False) or parallel(case, "backup")
            or case.get("parallel.shares") == "measured" and not parallel(case, "deterministic"))


def depends_on_ranks(case):
    """The examples of a rank matter: samplers, and the statistics of batch_norm (parallel.md, models.md)."""
    own_statistics = case.get("parallel.sync_batch_norm") is False or parallel(case, "group_size",
                                                                               "virtual_replicas") or case.get("batch.micro")
    return case.get("data.sampler") == "distributed_sampler" or has_batch_norm(case) and own_statistics


def is_weighted(case):
    """The mean over examples is not a plain one (loss.class_weights, ignore_class), or examples are mixed with their neighbours."""
    mixed = case.get("data.augment.mixup") or case.get("data.augment.cutmix")
    return case.get("loss.class_weights") or case.get("loss.ignore_class") is not None or mixed


def is_plain_sgd(case):
    """Steps are linear in the gradient, so that the mean of steps is the step of the mean."""
    return (case.get("optimizer.type", "sgd") == "sgd" and not case.get("optimizer.momentum") and not case.get("optimizer.clip_norm")
            and not case.get("optimizer.clip_value")
            and not is_weighted(case))


def sends_in_16_bits(case):
    return case.get("parallel.wire", "fp32") != "fp32"
