// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Lockstep as a library: another program trains networks (Session) and uses them (Network). See docs/user/embed.md.
/// The library leaves the process alone: it neither starts nor ends MPI or Kokkos, handles no signals, ends no process,
/// and writes only the files that it is told to. Errors are thrown as lockstep::Error, except errors of MPI itself,
/// which end the ranks.

#include "api/array.hpp"
#include "api/network.hpp"
#include "api/session.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
