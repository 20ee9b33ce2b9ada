"""Crawls: URLs that are visited once.

``sieve``   enqueues each URL once, and marks it after it is enqueued
``scrapy``  Scrapy's duplicate filter and scheduler; imported by nothing
"""
